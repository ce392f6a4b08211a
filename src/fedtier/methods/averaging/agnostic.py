"""Agnostic federated learning: one model for the worst mixture of the clients.

Mohri, Sivek, Suresh, "Agnostic Federated Learning", ICML 2019, https://arxiv.org/abs/1902.00146

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)               from y_i = x, H_i times
    x   <- x + (m/|S|) sum_S lambda_i (y_i - x)                    S the replies that arrived
    lambda <- P(lambda + (m/|T|) gamma sum_T l_i e_i)              T those with H_i > 0, l_i = f1(x, zeta_0) at the received x

P projects on the simplex, where lambda starts in the middle; e_i is the i-th unit vector. The global model is the mean of
x_1 .. x_R, as published: x and lambda circle around the saddle point. The factors m/|S| and m/|T| make the sums over a sampled
cohort right on average; at H = 1 and full participation it is the published descent and ascent. At gamma = 0 it is FedAvg with
uniform weights. Do not use it where few clients reply: a client with most of the weight moves x m/|S| times as far as it
went itself; nor with noisy labels, which it takes for a client in need. State: one number a client, at the server.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from optax.projections import projection_simplex

from ... import keys, trees
from ...errors import not_negative, require, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..method import ClientSpec, Method, Round, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .fedavg import LOCAL, PERSONAL, Shared, fedavg


class Server(NamedTuple):
    x: PyTree  # x_r [n]
    weights: Float[Array, "members"]  # lambda, in the first m members; zeros before the first step, for 1/m each
    average: PyTree  # the mean of x_1 .. x_r [n]


class Up(NamedTuple):
    delta: PyTree  # y_i - x_r [n]
    loss: Float[Array, ""]  # l_i; 0 where H_i = 0
    steps: Int[Array, ""]  # H_i


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|
    largest: Float[Array, ""]  # the largest lambda_i


def agnostic(
    problem: Bilevel,
    *,
    mixture_lr: float | Float[Array, ""] = 0.01,
    members: int = 1024,
    local: ProjectedSgd = LOCAL,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """Agnostic FL on problem.f1 with gamma = `mixture_lr`; `members` is how many clients there may be at most. The loss is that
    of the solve's first minibatch. The rest is FedAvg's."""
    not_negative("mixture_lr", mixture_lr)
    whole("members", members)
    plain = problem._replace(solve=None)  # a solver of the problem's own has no first minibatch
    base = fedavg(plain, local=local, personal=personal)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        client, up = base.local(client, shared, own, view, spec, turn)
        rows = local.sample(view, keys.at(turn.key, Tag.SOLVE, 0))
        return client, Up(up.delta, jnp.where(turn.steps > 0, problem.f1(shared.x, rows), 0.0), turn.steps)

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        m, ids = round.clients, round.ids
        require(m <= members, "members", members, f"must be at least the number of clients, {m}", f"members = {m}")
        told = round.arrived & (ups.steps > 0)
        arrived, tellers = (m / jnp.maximum(1, jnp.sum(which)) for which in (round.arrived, told))
        lam = jnp.where(jnp.sum(server.weights) > 0, server.weights[:m], 1.0 / m)
        delta = trees.weighted_sum(jnp.where(round.arrived, arrived * lam[ids], 0.0), ups.delta)
        after = projection_simplex(lam.at[ids].add(mixture_lr * tellers * jnp.where(told, ups.loss, 0.0)))
        weights = jnp.where(jnp.any(told), server.weights.at[:m].set(after), server.weights)
        x = trees.add(server.x, delta)
        average = trees.axpy(1.0 / (round.round + 1.0), trees.sub(x, server.average), server.average)
        return Server(x, weights, average), Info(trees.norm(delta), jnp.max(lam))

    return base._replace(
        name="agnostic",
        server_init=lambda x: Server(x, jnp.zeros(members), x),
        local=at_client,
        aggregate=aggregate,
        sums=None,
        global_model=lambda server: server.average,
        foreign=False,
    )
