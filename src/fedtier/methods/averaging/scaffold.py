"""SCAFFOLD: stochastic controlled averaging, option II.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, https://arxiv.org/abs/1910.06378

    y_i  <- y_i - tilde_gamma_t (grad f1(y_i, zeta_t) + c - c_i)     H_i times from y_i = x
    c_i+ <- c_i - c + (x - y_i) / sum_t tilde_gamma_t                 option II; unchanged when the sum is 0
    x    <- x + (server_rate/|S|) sum_S (y_i - x)                     c <- c + (1/m) sum_S (c_i+ - c_i)

The published K eta_l is the sum of the steps, which is what remains right when they decay. With momentum at the client it
is the sum of the weights that the gradients have in x - y_i (about 1/(1 - rho) as much), so that c_i+ stays a mean of
gradients; with the plain sum, as in public code, c_i would be so many times too large. c stays the mean of all c_i
(m clients, not |S|). A reply that is lost leaves no trace: neither c nor c_i moves. With one client it is SGD. State
is one model per client: mind the memory when m is large; and c_i grow stale when a client is asked rarely.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import choice, positive
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..method import ClientSpec, Contribution, Method, Round, Sums, Turn, counted_alike
from ..parts import check_parts
from ..personal import PersonalRule, without_lower_level
from ..solvers import ProjectedSgd
from .fedavg import LOCAL, PERSONAL, Info, weights_of


class Server(NamedTuple):
    x: PyTree  # x_r [n]
    c: PyTree  # c = (1/m) sum_i c_i [n]


class Client(NamedTuple):
    c: PyTree  # c_i [n]


class Up(NamedTuple):
    delta_y: PyTree  # y_i - x_r [n]
    delta_c: PyTree  # c_i+ - c_i [n]


def scaffold(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    server_rate: float | Float[Array, ""] = 1.0,
    weighting: str = "uniform",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """SCAFFOLD on problem.f1, every client counted alike as published, or by rows with `weighting` "data"; `server_rate` is
    the published eta_g, the rest is as in FedAvg."""
    check_parts(local=local, personal=personal)
    positive("server_rate", server_rate)
    choice("weighting", weighting, ("data", "uniform"))
    gradient = jax.grad(problem.f1)

    def at_client(client: Client, shared: Server, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        correction, key = trees.sub(shared.c, client.c), keys.at(turn.key, Tag.SOLVE)

        def corrected(y: PyTree, rows: PyTree) -> PyTree:
            return trees.add(gradient(y, rows), correction)

        delta_y = trees.sub(local.descend(corrected, shared.x, view, spec, turn.steps, key), shared.x)
        path = local.path(spec, turn.steps)
        moved = path > 0  # neither H_i = 0 nor a step size of 0 says anything about a gradient
        delta_c = trees.axpy(-1.0 / jnp.where(moved, path, 1.0), delta_y, trees.scale(-1.0, shared.c))
        delta_c = trees.where(moved, delta_c, trees.zeros_like(delta_c))
        return Client(trees.add(client.c, delta_c)), Up(delta_y, delta_c)

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        weights = weights_of(specs, weighting)  # their mean over all clients is 1
        share = jnp.sum(round.arrived * weights) / round.clients  # |S|/m
        return moved(server, trees.mean_over(round.arrived, ups, weights), share)

    def moved(server: Server, mean: Up, share: Float[Array, ""]) -> tuple[Server, Info]:
        delta = trees.scale(server_rate, mean.delta_y)
        return Server(trees.add(server.x, delta), trees.axpy(share, mean.delta_c, server.c)), Info(trees.norm(delta))

    def share(up: Up, spec: ClientSpec) -> Contribution:
        return counted_alike(up).times(jnp.asarray(weights_of(spec, weighting), jnp.float32))

    return Method(
        name="scaffold",
        server_init=lambda x: Server(x, trees.zeros_like(x)),
        client_init=lambda x, spec: Client(trees.zeros_like(x)),
        broadcast=lambda server, opening: server,
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=without_lower_level(personal, problem),
        seat=True,
        sums=Sums(share, lambda server, total, opening: moved(server, total.mean, total.weight / opening.clients)),
    )
