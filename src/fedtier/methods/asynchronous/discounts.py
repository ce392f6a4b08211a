"""How much a stale reply counts: s(tau) for a reply that is tau server steps old, and the sum of such replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ... import trees
from ...errors import choice, not_negative
from ..method import Round

Discount = Callable[[Int[Array, "S"]], Float[Array, "S"]]
KINDS = ("constant", "polynomial", "hinge")


def discount(kind: str, exponent: Any = 0.5, slope: Any = 10.0, after: Any = 4.0) -> Discount:
    """1 (constant), (1 + tau)^-exponent (polynomial), or 1 up to tau = after and 1/(slope (tau - after) + 1) from there on
    (hinge): the three of FedAsync, section 5.2."""
    choice("discounting", kind, KINDS)
    for name, value in (("exponent", exponent), ("hinge_slope", slope), ("hinge_after", after)):
        not_negative(name, value)
    if kind == "polynomial":
        return lambda ages: (1.0 + ages) ** -exponent
    if kind == "hinge":
        return lambda ages: 1.0 / (slope * jnp.maximum(ages - after, 0.0) + 1.0)
    return lambda ages: jnp.ones(ages.shape)


def discounted_mean(round: Round, xs: PyTree, weights: Float[Array, "S"], discounts: Float[Array, "S"]) -> PyTree:
    """sum_i w_i s_i x_i / sum_i w_i over the replies that arrived; zeros when none did. The sum of w, not of w s, divides: the
    step is short where all are stale."""
    w = jnp.where(round.arrived, weights, 0.0)
    total = jnp.sum(w)
    return trees.weighted_sum(w * discounts / jnp.where(total > 0, total, 1.0), xs)
