"""SimFBO and ShroFBO: one loop for both levels when the lower level is shared by all clients.

Yang, Xiao, Ji, "SimFBO: Towards Simple, Flexible and Communication-efficient Federated Bilevel Learning", NeurIPS 2023,
https://arxiv.org/abs/2305.19442

    y_i <- y_i - tilde_gamma_t grad_y g_i
    v_i <- v_i - tilde_gamma_t rho_v (hess_yy g_i v_i - grad_y f_i)
    x_i <- x_i - tilde_gamma_t rho_x (grad_x f_i - hess_xy g_i v_i)     the three at once, H_i times from the server's
    (y, x) <- (y, x) + (1/S) sum_i w_i D_i     over the S replies that arrived, w_i = m p_i; D_i the moves of client i
    v <- Pi(v + (1/S) sum_i w_i D_i)     on the ball |v| <= radius

v tends to the solution of hess_yy g v = grad_y f, so that x follows the hypergradient. ShroFBO takes D_i/A_i for D_i, where
A_i = sum_t tilde_gamma_t, times the mean of A_i by weight: with short steps unequal H_i then do not move the solution. Clients
with A_i = 0 do not count there. With equal H_i the two are one. A step's products with Hessians are one jvp of the gradient, on
the minibatch of g; the paper draws them anew. The global model is y. A `Bilevel` is read as the tuning of weight decays on
its f1 (`problem.weight_decay`). Not where clients should have lower levels of their own: that is `zo_hfl`. State: none.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import trees
from ...errors import positive, require
from ...federation import View
from ...problem import Bilevel, SharedLower, ball, weight_decay
from ..averaging.fedavg import LOCAL, PERSONAL, Info
from ..method import ClientSpec, Method, PersonalModel, Round, Turn
from ..parts import check_parts, check_plain
from ..personal import PersonalRule, without_lower_level
from ..solvers import ProjectedSgd
from .levels import Levels, walked

Real = float | Float[Array, ""]


class Up(NamedTuple):
    moves: Levels  # D_i
    path: Float[Array, ""]  # A_i


def simfbo(
    problem: Bilevel | SharedLower,
    *,
    local: ProjectedSgd = LOCAL,
    upper_rate: Real = 1.0,
    adjoint_rate: Real = 1.0,
    adjoint_radius: Real = 10.0,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """SimFBO; rho_x = `upper_rate`, rho_v = `adjoint_rate`, the radius of v's ball = `adjoint_radius`."""
    return _method("simfbo", problem, local, (upper_rate, adjoint_rate, adjoint_radius), personal)


def shrofbo(
    problem: Bilevel | SharedLower,
    *,
    local: ProjectedSgd = LOCAL,
    upper_rate: Real = 1.0,
    adjoint_rate: Real = 1.0,
    adjoint_radius: Real = 10.0,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """ShroFBO, options as in `simfbo`."""
    return _method("shrofbo", problem, local, (upper_rate, adjoint_rate, adjoint_radius), personal, normalised=True)


def _method(
    name: str,
    problem: Bilevel | SharedLower,
    local: ProjectedSgd,
    options: tuple[Real, Real, Real],
    personal: PersonalRule,
    normalised: bool = False,
) -> Method:
    check_parts(local=local, personal=personal)
    check_plain(local)
    for key, value in zip(("upper_rate", "adjoint_rate", "adjoint_radius"), options, strict=True):
        positive(key, value)
    shared = problem if isinstance(problem, SharedLower) else weight_decay(problem.f1)
    upper_rate, adjoint_rate, radius = options

    def at_client(client: tuple, start: Levels, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        end, path = walked(shared, local, (upper_rate, 1.0, adjoint_rate), start, view, spec, turn)
        return client, Up(trees.sub(end, start), path)

    def aggregate(server: Levels, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Levels, Info]:
        counts = round.arrived & (ups.path > 0) if normalised else round.arrived
        share = specs.weight / jnp.where(counts, ups.path, 1.0) if normalised else specs.weight
        length = trees.mean_over(counts, ups.path, specs.weight) if normalised else 1.0
        mean = trees.mean_over(counts, jax.vmap(trees.scale)(share, ups.moves))
        moved = trees.axpy(length, mean, server)
        v = ball(1.0).project(trees.scale(1.0 / radius, moved.v), trees.zeros_like(moved.v), specs)
        return moved._replace(v=trees.scale(radius, v)), Info(trees.norm(trees.sub(moved.y, server.y)))

    return Method(
        name=name,
        server_init=lambda y: Levels(shared.first(y), y, trees.zeros_like(y)),
        broadcast=lambda server, opening: server,
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.y,
        personal_model=_personal(personal, problem),
        seat=True,
    )


def _personal(rule: PersonalRule, problem: Bilevel | SharedLower) -> PersonalModel:
    if isinstance(problem, Bilevel):
        return without_lower_level(rule, problem)
    rule_of_y = "has no loss of one model to tune on: f and g are of two levels"
    require(rule.name == PERSONAL.name, "personal", rule.name, rule_of_y, "personal=global_model()")
    return lambda client, x, view, spec, turn: x
