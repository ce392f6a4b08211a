"""Coordinate median: FedAvg with the median of each coordinate in place of the mean.

Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
https://arxiv.org/abs/1803.01498

    D_i = y_i - x                                     y_i as in FedAvg
    x  <- x + median_i D_i                            coordinate by coordinate, over the replies that arrived

Every reply counts alike, as published; of an even number of replies it is the mean of the two in the middle. One reply is
taken as it is, two are averaged. A minority of wrong replies, however large, leaves each coordinate between two honest ones.
Do not use it where clients differ much: a coordinate that few clients move, a rare class for example, does not move at all,
and nobody needs to attack for that. Clients have no state.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import trees
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, averaging
from ..method import Method
from ..personal import PersonalRule
from ..solvers import ProjectedSgd


def coordinate_median(problem: Bilevel, *, local: ProjectedSgd = LOCAL, personal: PersonalRule = PERSONAL) -> Method:
    """The coordinate median on problem.f1; `local` and `personal` as in FedAvg."""
    return averaging(
        "coordinate_median", problem, lambda y, x: trees.zeros_like(y), local, "uniform", personal, combine=median_over
    )


def median_over(arrived: Bool[Array, "S"], xs: PyTree, weights: Float[Array, "S"]) -> PyTree:
    """The weighted median of the rows that arrived, in each coordinate: the middle of all points with at most half of the
    weight on either side; zeros when nothing arrived."""
    w = jnp.where(arrived, weights, 0.0)
    half = 0.5 * jnp.sum(w)

    def leaf(a: Array) -> Array:
        here = jnp.where(along(arrived, a), a, jnp.inf)
        order = jnp.argsort(here, axis=0)
        below = jnp.cumsum(w[order], axis=0)  # the weight up to and with each place
        ends = (jnp.argmax(found, axis=0, keepdims=True) for found in (below >= half, below > half))
        lower, upper = (jnp.take_along_axis(here, jnp.take_along_axis(order, end, axis=0), axis=0)[0] for end in ends)
        return jnp.where(half > 0, 0.5 * lower + 0.5 * upper, 0.0).astype(a.dtype)

    return trees.map(leaf, xs)


def along(row: Array, a: Array) -> Array:
    """`row` [S] shaped so that it meets the leading axis of `a` [S, ...]."""
    return row.reshape(-1, *[1] * (a.ndim - 1))
