"""FedBuff: federated averaging with buffered asynchronous aggregation.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, "Federated Learning with Buffered Asynchronous Aggregation",
AISTATS 2022, https://arxiv.org/abs/2106.06639

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     from y_i = x_{r - tau_i}, H_i times
    x   <- x + eta_g sum_i s(tau_i) (y_i - x_{r - tau_i}) / B     over the B replies in the buffer, s(tau) = 1/sqrt(1 + tau)

The buffer's size divides, not the sum of s (Algorithm 1, line 11). With tau = 0 for all it is FedAvg with uniform weights and a
server step eta_g; with B = 1 and eta_g = alpha it is FedAsync in the delta form. A reply that is lost is not in the sum and not
in B. Clients keep no state. Do not use it where the fast clients' data differ from the slow ones': who is fast is in more
buffers, so x leans towards the fast; nor where all clients are equally fast: rounds of FedAvg then take no longer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import trees
from ...errors import choice, positive, whole
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, Server, Up, averaging, weights_of
from ..method import Method, Round
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .discounts import discount, discounted_mean


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|
    staleness: Float[Array, ""]  # mean of tau over the buffer


def fedbuff(
    problem: Bilevel,
    *,
    buffer: int = 10,
    server_rate: float | Float[Array, ""] = 1.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "uniform",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedBuff on problem.f1 with B = `buffer` and eta_g = `server_rate`; `weighting` "uniform" as published, or "data": sums
    over the buffer are then by rows, w_i = N_i."""
    whole("buffer", buffer)
    positive("server_rate", server_rate)
    choice("weighting", weighting, ("data", "uniform"))
    s = discount("polynomial", 0.5)

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        weights = weights_of(specs, weighting)
        mean = discounted_mean(round, ups.delta, weights, s(round.ages))
        delta = trees.scale(server_rate, mean)
        return Server(trees.add(server.x, delta)), Info(trees.norm(delta), jnp.mean(round.ages.astype(jnp.float32)))

    plain = averaging("fedbuff", problem, lambda y, x: trees.zeros_like(y), local, weighting, personal)
    return plain._replace(aggregate=aggregate, buffer=buffer, foreign=False, sums=None)
