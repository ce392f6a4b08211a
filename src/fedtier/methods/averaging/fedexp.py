"""FedExP: FedAvg whose server goes further the more the clients' moves differ.

Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation", ICLR 2023,
https://arxiv.org/abs/2301.09604

    d <- sum_i p_i (y_i - x)                                              y_i and p_i = w_i / sum_j w_j as in FedAvg
    eta_g <- max(1, sum_i p_i |y_i - x|^2 / (2 (|d|^2 + epsilon)))
    x <- x + eta_g d                                                      the global model is (x_r + x_{r-1})/2

eta_g is 1, which is FedAvg, for one client and where all moves are equal, and k/2 for k orthogonal moves of one length. The
iterates swing around the solution, hence the mean of the last two as the global model; clients start from x_r itself. Where no
client made a step, both stay. epsilon keeps eta_g finite; compare it with |d|^2, which is small where steps are. Do not use
it with noisy clients: moves that differ by chance make it go further too. State: one more model at the server.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import trees
from ...errors import positive
from ...problem import Bilevel
from ..method import Method, Round
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .counted import Counted, counted
from .fedavg import LOCAL, PERSONAL, fedavg, weights_of


class Server(NamedTuple):
    x: PyTree  # x_r [n]
    before: PyTree  # x_{r-1} [n]


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|
    rate: Float[Array, ""]  # eta_g


def fedexp(
    problem: Bilevel,
    *,
    epsilon: float = 1e-3,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedExP on problem.f1; `epsilon` is the paper's, the rest is FedAvg's."""
    positive("epsilon", epsilon)
    base = counted(fedavg(problem, local=local, weighting=weighting, personal=personal), "fedexp")

    def aggregate(server: Server, owns: tuple, ups: Counted, specs: PyTree, round: Round) -> tuple[Server, Info]:
        squares = jax.vmap(lambda delta: trees.dot(delta, delta))(ups.delta)
        d, square = trees.mean_over(round.arrived, (ups.delta, squares), weights_of(specs, weighting))
        rate = jnp.maximum(1.0, square / (2.0 * (trees.dot(d, d) + epsilon)))
        after = trees.where(ups.moved(round), Server(trees.axpy(rate, d, server.x), server.x), server)
        return after, Info(trees.norm(trees.sub(after.x, server.x)), rate)

    return base._replace(
        server_init=lambda x: Server(x, x),
        aggregate=aggregate,
        sums=None,
        global_model=lambda server: trees.scale(0.5, trees.add(server.x, server.before)),
    )
