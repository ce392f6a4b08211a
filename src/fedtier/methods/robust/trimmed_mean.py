"""Trimmed mean: FedAvg without the largest and the smallest numbers of each coordinate.

Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
https://arxiv.org/abs/1803.01498

    D_i = y_i - x                                                  y_i as in FedAvg
    x  <- x + (1/(k - 2 b)) sum_{j = b + 1}^{k - b} D_(j)          D_(1) <= ... <= D_(k) in each coordinate, b = beta k

k replies arrived and count alike, as published. b is rounded up, so that a share beta of wrong replies is cut off whole, and
it leaves at least one number, or two of an even k: that is the coordinate median. At beta = 0 it is FedAvg with weighting =
"uniform". More wrong replies than b in a round can lead the model anywhere: beta must be above the share of the attackers in
the cohort, which under partial participation is sometimes more than their share of all clients. Clients have no state.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from ... import trees
from ...errors import not_negative, require
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, averaging
from ..method import Method
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .coordinate_median import along

DECIMALS = 1e-9  # 0.07 x 100 is 7.000000000000001 in binary; whoever wrote 0.07 means 7


def trimmed_mean(
    problem: Bilevel,
    *,
    trim: float = 0.2,
    local: ProjectedSgd = LOCAL,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """The trimmed mean on problem.f1 with beta = `trim`, cut off at either end; `local` and `personal` as in FedAvg."""
    not_negative("trim", trim)
    require(trim < 0.5, "trim", trim, "must be below 0.5", "it is cut off at either end; 0.2 bears one reply in five")

    def combine(arrived: Bool[Array, "S"], xs: PyTree, weights: Float[Array, "S"]) -> PyTree:
        return trimmed_over(arrived, xs, trim)

    return averaging("trimmed_mean", problem, lambda y, x: trees.zeros_like(y), local, "uniform", personal, combine)


def trimmed_over(arrived: Bool[Array, "S"], xs: PyTree, trim: float) -> PyTree:
    """The mean of the middle numbers of the rows that arrived, in each coordinate; zeros when nothing arrived."""
    seats = np.arange(arrived.shape[0] + 1)
    cuts = np.minimum(np.ceil(trim * seats - DECIMALS).astype(int), np.maximum(seats - 1, 0) // 2)  # b for each k
    k = jnp.sum(arrived)
    cut = jnp.asarray(cuts, k.dtype)[k]
    place = jnp.arange(arrived.shape[0])
    kept = (place >= cut) & (place < k - cut)

    def leaf(a: Array) -> Array:
        ordered = jnp.sort(jnp.where(along(arrived, a), a, jnp.inf), axis=0)  # the lost ones come last
        total = jnp.sum(jnp.where(along(kept, a), ordered, 0.0), axis=0)
        return (total / jnp.maximum(k - 2 * cut, 1)).astype(a.dtype)

    return trees.map(leaf, xs)
