"""FedNova: averaging of moves that were divided by how far each client could go.

Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
NeurIPS 2020, https://arxiv.org/abs/2007.07481

    y_i <- y_i - tilde_gamma_t (grad f1(y_i, zeta_t) + mu (y_i - x))     from y_i = x, H_i times
    A_i = sum_t A_{i,t}                                                   y_i - x is -sum_t A_{i,t} grad f1(y_i, zeta_t)
    x   <- x + (sum_j p_j A_j) sum_i p_i (y_i - x) / A_i                  p_i = w_i / sum_j w_j, over the replies with A_i > 0

A_i is the published |a_i|_1 with the step sizes in it, which is what remains right when they decay: H_i steps of size eta make
eta H_i; with momentum rho, eta (H_i - rho (1 - rho^H_i)/(1 - rho))/(1 - rho); with a pull mu, (1 - (1 - eta mu)^H_i)/mu.
Momentum takes the pull in, as everywhere here. A client with H_i = 0 is in neither sum. Where all A_i are equal it is
FedAvg (FedProx for mu > 0). It removes the bias of FedAvg towards clients that make more steps, not the drift of each: its
fixed point is that of the average only as eta -> 0. At few rows a client with few steps gets as much say, and its noise, as
one with many: do not use it to save on stragglers. No state; the reply has one number beside the move.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import trees
from ...federation import View
from ...problem import Bilevel
from ..method import ClientSpec, Method, Round, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .fedavg import LOCAL, PERSONAL, Info, Server, Shared, averaging, towards, weights_of


class Up(NamedTuple):
    delta: PyTree  # y_i - x_r [n]
    path: Float[Array, ""]  # A_i


def fednova(
    problem: Bilevel,
    *,
    proximity: float | Float[Array, ""] = 0.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedNova on problem.f1 with mu = `proximity`; the rest is FedAvg's."""
    plain = problem._replace(solve=None)  # of a solver of the problem's own, A_i is not known
    base = averaging("fednova", plain, towards(proximity), local, weighting, personal)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        client, up = base.local(client, shared, own, view, spec, turn)
        return client, Up(up.delta, local.path(spec, turn.steps, proximity))

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        moved = round.arrived & (ups.path > 0)
        w = jnp.where(moved, weights_of(specs, weighting), 0.0)
        p, path = w / jnp.where(jnp.any(moved), jnp.sum(w), 1.0), jnp.where(moved, ups.path, 1.0)
        delta = trees.weighted_sum(jnp.sum(p * path) * p / path, ups.delta)
        return Server(trees.add(server.x, delta)), Info(trees.norm(delta))

    return base._replace(local=at_client, aggregate=aggregate, foreign=False, sums=None)
