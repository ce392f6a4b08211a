"""A model around a black box: its inputs are shifted before it, its outputs are mapped after it, and it stays as it is.

    apply((q, s), u) = s(g(u + B q))     g the black box, B [features, d] fixed, s a dense layer

Nothing is differentiated through g: with respect to q all derivatives are 0, so that q can be tuned by values alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import require, whole
from .models import Inputs, Linear, Model, softmax

BlackBox = Callable[[Float[Array, "B features"]], Float[Array, "B outputs"]]


class Remapped(NamedTuple):
    shift: Float[Array, "d"]  # q
    head: Linear  # s


def remapped(black_box: BlackBox, basis: Float[np.ndarray, "features d"], *, outputs: int, classes: int) -> Model:
    """The model above, which starts at q = 0 and s = 0. `black_box` is any traceable function of a batch; `outputs` is how many
    numbers it gives for a row. The columns of `basis` are the shifts that q can make."""
    whole("outputs", outputs)
    require(np.ndim(basis) == 2, "basis", np.shape(basis), "must be a matrix [features, d]")
    head = softmax(outputs, classes)

    def init(key: object) -> Remapped:
        return Remapped(jnp.zeros(np.shape(basis)[1]), head.init(None))  # pyright: ignore[reportArgumentType]

    def apply(x: Remapped, inputs: Inputs) -> Float[Array, "B classes"]:
        shifted = jnp.asarray(inputs).reshape(inputs.shape[0], -1) + (jnp.asarray(basis, x.shift.dtype) @ x.shift)[None]
        return head.apply(x.head, black_box(jax.lax.stop_gradient(shifted)))  # a call out of the program has no derivative

    return Model("remapped", init, apply)
