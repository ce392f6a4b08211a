"""RFA: robust federated aggregation, the geometric median of the replies.

Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", IEEE Transactions on Signal Processing 2022,
https://arxiv.org/abs/1912.13445

    D_i = y_i - x                                              y_i as in FedAvg, w_i = N_i
    z  <- sum_i b_i D_i / sum_i b_i                            b_i = w_i / max(nu, |z - D_i|), |.| of the whole model
    x  <- x + z

z is iterated (smoothed Weiszfeld) until |sum_i b_i (z - D_i)| <= tolerance sum_i w_i, at most `iterations` times. The paper
starts at the mean and makes 3 or 4 iterations, after which two of five replies at 1e6 still move z by 1e4. We start at the
weighted median of each coordinate, which huge replies do not move. With one client it is FedAvg; where more than half of the
weight has the same reply, z is that reply. It bears wrong replies of less than half of the weight: with `weighting` "data" a
client that overstates its rows has more of it. Do not use it where clients differ much and all are honest: it leans to
the majority's optimum, not to the mean. Clients have no state.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees
from ...errors import positive, whole
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, averaging
from ..method import Method
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .coordinate_median import along, median_over


class Seen(NamedTuple):
    """Where Weiszfeld's iteration is."""

    count: Int[Array, ""]
    z: PyTree  # [n]
    slope: PyTree  # [n]
    total: Float[Array, ""]  # sum_i b_i


def rfa(
    problem: Bilevel,
    *,
    nu: float = 1e-6,
    iterations: int = 50,
    tolerance: float = 1e-3,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """RFA on problem.f1. `nu` is the published smoothing of the distance; `iterations` of Weiszfeld at most, fewer once the
    unit vectors to the replies add up to at most `tolerance`; the rest is FedAvg's."""
    positive("nu", nu)
    positive("tolerance", tolerance)
    whole("iterations", iterations)

    def combine(arrived: Bool[Array, "S"], xs: PyTree, weights: Float[Array, "S"]) -> PyTree:
        return geometric_median_over(arrived, xs, weights, nu, iterations, tolerance)

    return averaging("rfa", problem, lambda y, x: trees.zeros_like(y), local, weighting, personal, combine)


def geometric_median_over(
    arrived: Bool[Array, "S"],
    xs: PyTree,
    weights: Float[Array, "S"],
    nu: float | Float[Array, ""],
    iterations: int | Int[Array, ""],
    tolerance: float | Float[Array, ""],
) -> PyTree:
    """The point with the least weighted sum of distances to the rows that arrived; zeros when nothing arrived."""
    w = jnp.where(arrived, weights, 0.0)
    p = w / jnp.where(jnp.sum(w) > 0, jnp.sum(w), 1.0)
    rows = trees.map(lambda a: jnp.where(along(arrived, a), a, jnp.zeros((), a.dtype)), xs)

    def look(z: PyTree) -> tuple[PyTree, Float[Array, ""]]:
        """(sum_i b_i (z - D_i), which is the slope of the sum of distances at z; sum_i b_i)."""
        apart = jax.vmap(lambda row: trees.sub(z, row))(rows)
        b = p / jnp.maximum(nu, jax.vmap(trees.norm)(apart))
        return trees.weighted_sum(b, apart), jnp.sum(b)

    def another(seen: Seen) -> Seen:
        z = trees.axpy(-1.0 / seen.total, seen.slope, seen.z)
        return Seen(seen.count + 1, z, *look(z))

    def goes_on(seen: Seen) -> Bool[Array, ""]:
        return (seen.count < iterations) & (trees.norm(seen.slope) > tolerance)  # no reply: no slope

    start = median_over(arrived, rows, weights)
    return jax.lax.while_loop(goes_on, another, Seen(jnp.asarray(0), start, *look(start))).z
