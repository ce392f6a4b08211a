"""Couplings f2(x, y, spec): what the server pays when its model x lies far from a client's model y.

Any function of the same form will do:

    def f2(x, y, spec):
        return spec.weight * jnp.sum(jnp.abs(x["head"] - y["head"]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree, Real

from .. import trees
from ..errors import not_negative, positive


@runtime_checkable
class Coupling(Protocol):
    def __call__(self, x: PyTree, y: PyTree, spec: PyTree, /) -> Float[Array, ""]:
        """f2(x, y): a scalar. `x` is the server's model, `y` a client's, a tree like x; `spec` is that client's row.

        Pure, traceable, and differentiable almost everywhere. The server averages it over clients, so a client's share
        belongs into it (`spec.weight`). For the theory: Lipschitz in x and in y.
        """
        ...


def quadratic(penalty: Real[ArrayLike, ""]) -> Coupling:
    """penalty/2 weight |x - y|^2.

    Not Lipschitz on all of space: Assumption 1(i) of the paper needs a ball around x (`sets.ball`) or `huber`.
    """
    not_negative("penalty", penalty)

    def f2(x: PyTree, y: PyTree, spec: PyTree) -> Float[Array, ""]:
        d = trees.sub(x, y)
        return 0.5 * penalty * spec.weight * trees.dot(d, d)

    return f2


def huber(penalty: Real[ArrayLike, ""], width: float) -> Coupling:
    """`quadratic` up to |x - y| = width, then linear: Lipschitz with constant penalty weight width everywhere."""
    not_negative("penalty", penalty)
    positive("width", width)

    def f2(x: PyTree, y: PyTree, spec: PyTree) -> Float[Array, ""]:
        d = trees.sub(x, y)
        squared = trees.dot(d, d)
        far = squared > width**2
        length = jnp.sqrt(jnp.where(far, squared, 1.0))  # the square root has no gradient at 0
        return penalty * spec.weight * jnp.where(far, width * (length - 0.5 * width), 0.5 * squared)

    return f2


def on_part(part: Callable[[PyTree], PyTree], coupling: Coupling) -> Coupling:
    """`coupling` on a part of the model alone: the rest of y is the client's own affair.

    >>> f2 = on_part(lambda model: model["body"], quadratic(1.0))
    """
    return lambda x, y, spec: coupling(part(x), part(y), spec)
