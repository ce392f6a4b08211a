"""The two-level problem whose lower level is shared: one y for all clients, not one for each.

    min over x   sum_i p_i f_i(x, y(x))     where   y(x) = argmin over y of sum_i p_i g_i(x, y)

`weight_decay` is the example that any loss has: x are the logarithms of weight decays, one for each leaf of the model y; the
lower level trains y on one half of each client's rows, the upper level judges it on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .. import trees
from ..errors import positive
from .bilevel import Loss


@runtime_checkable
class LevelLoss(Protocol):
    def __call__(self, x: PyTree, y: PyTree, batch: PyTree, /) -> Float[Array, ""]:
        """f_i or g_i at (x, y): the mean over the rows of `batch`. Pure and traceable; f differentiable once, g twice.

        `x` are the upper level's variables, `y` the lower level's: trees of any form. g is strongly convex in y in theory.
        """
        ...


class SharedLower(NamedTuple):
    """What is solved. The model that everyone gets is y."""

    f: LevelLoss  # the upper level
    g: LevelLoss  # the lower level
    first: Callable[[PyTree], PyTree]  # y_0 -> x_0, where the upper level starts
    halves: bool = True  # does g see one half of a client's rows and f the other? False: both see all


def weight_decay(loss: Loss, *, first: float = 0.01) -> SharedLower:
    """g = loss(y) + 1/2 sum over the leaves exp(x_leaf) |y_leaf|^2 and f = loss(y), from a decay of `first` for every leaf."""
    positive("first", first)

    def g(x: PyTree, y: PyTree, batch: PyTree) -> Float[Array, ""]:
        squares = trees.map(lambda a, b: jnp.exp(a) * jnp.sum(b**2), x, y)
        return loss(y, batch) + 0.5 * jnp.sum(jnp.stack(jax.tree.leaves(squares)))

    def start(y: PyTree) -> PyTree:
        return trees.map(lambda a: jnp.full((), np.log(first), a.dtype), y)

    return SharedLower(lambda x, y, batch: loss(y, batch), g, start)
