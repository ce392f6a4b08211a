"""FedDyn: federated learning with dynamic regularisation.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on Dynamic Regularization", ICLR 2021,
https://arxiv.org/abs/2111.04263

    y_i <- y_i - tilde_gamma_t (grad f1(y_i, zeta_t) - g_i + mu (y_i - x))     H_i times from y_i = x
    g_i <- g_i - mu (y_i - x)                                                   h <- h - (mu/m) sum_S (y_i - x)
    x   <- (1/|S|) sum_S y_i - h/mu                                             S the replies with H_i > 0

Once the solves are exact, g_i is the gradient of f_i at y_i, and x rests only where all y_i = x: at the minimum of the uniform
mean of the f_i, for every mu > 0 and every sampling of clients. h takes 1/m, not 1/|S|: it is the mean of all g_i. A client
with H_i = 0 has not taken part; where nobody has, nothing moves. With g_i = h = 0 held fixed it is FedProx with uniform
weights. Do not use it with few local steps and a small mu: what a solve leaves undone enters g_i and h, and h/mu makes it
large. State: one model per client and one at the server.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PyTree

from ... import keys, trees
from ...errors import positive
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..method import ClientSpec, Contribution, Method, Round, Sums, Turn
from ..parts import check_parts
from ..personal import PersonalRule, without_lower_level
from ..solvers import ProjectedSgd
from .counted import Counted
from .fedavg import LOCAL, PERSONAL, Info, Shared


class Server(NamedTuple):
    x: PyTree  # x_r [n]
    h: PyTree  # h = (1/m) sum_i g_i [n]


class Client(NamedTuple):
    g: PyTree  # g_i [n]


def feddyn(
    problem: Bilevel,
    *,
    proximity: float | Float[Array, ""] = 0.1,
    local: ProjectedSgd = LOCAL,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedDyn on problem.f1, every client counted alike as published; mu = `proximity` is the published alpha."""
    check_parts(local=local, personal=personal)
    positive("proximity", proximity)
    gradient = jax.grad(problem.f1)

    def at_client(
        client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client, Counted]:
        x = shared.x

        def dynamic(y: PyTree, rows: PyTree) -> PyTree:
            return trees.axpy(proximity, trees.sub(y, x), trees.sub(gradient(y, rows), client.g))

        y = local.descend(dynamic, x, view, spec, turn.steps, keys.at(turn.key, Tag.SOLVE))
        delta = trees.sub(y, x)
        return Client(trees.axpy(-proximity, delta, client.g)), Counted(delta, turn.steps)

    def aggregate(server: Server, owns: tuple, ups: Counted, specs: PyTree, round: Round) -> tuple[Server, Info]:
        moved = round.arrived & (ups.steps > 0)
        return after_move(server, trees.mean_over(moved, ups.delta), jnp.sum(moved), round.clients)

    def after_move(server: Server, delta: PyTree, moved: Num[Array, ""], clients: int) -> tuple[Server, Info]:
        h = trees.axpy(-proximity * moved / clients, delta, server.h)  # |S|/m
        x = trees.axpy(-1.0 / proximity, h, trees.add(server.x, delta))
        after = trees.where(moved > 0, Server(x, h), server)
        return after, Info(trees.norm(trees.sub(after.x, server.x)))

    def share(up: Counted, spec: ClientSpec) -> Contribution:
        moved = (up.steps > 0).astype(jnp.float32)
        return Contribution(trees.scale(moved, up.delta), moved, moved)

    return Method(
        name="feddyn",
        server_init=lambda x: Server(x, trees.zeros_like(x)),
        client_init=lambda x, spec: Client(trees.zeros_like(x)),
        broadcast=lambda server, opening: Shared(server.x),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=without_lower_level(personal, problem),
        seat=True,
        sums=Sums(share, lambda server, total, opening: after_move(server, total.mean, total.weight, opening.clients)),
    )
