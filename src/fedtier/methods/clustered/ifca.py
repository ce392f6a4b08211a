"""IFCA: iterative federated clustering; HypCluster is the same idea.

Ghosh, Chung, Yin, Ramchandran, "An Efficient Framework for Clustered Federated Learning", NeurIPS 2020,
https://arxiv.org/abs/2006.04088; Mansour, Mohri, Ro, Suresh, "Three Approaches for Personalization with Applications to
Federated Learning", 2020, https://arxiv.org/abs/2002.10619

    j_i = argmin_j L_i(x_j)                              L_i: the mean of f1 over all rows of client i
    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)      from y_i = x_{j_i}, H_i times
    x_j <- x_j + sum_i w_i (y_i - x_j) / sum_i w_i       over the replies that arrived with j_i = j; w_i = N_i

All K models are sent to every client of a round: the download is K times FedAvg's, and a choice costs K passes over the
client's rows. With K = 1 it is FedAvg. Equal starts tie and every client trains model 0, so models 1 .. K - 1 start at
x + spread z, z standard normal, drawn from `start_seed`. A model may still lose all its clients. The authors draw the start
anew until none does, which needs the clients; here, with `patience` > 0, a model that none of the latest patience K replies
has chosen restarts at y_i of the reply with the largest loss of the round, as k-means moves an empty centre to the point
that fits worst. The personal model is that of the client's choice, fine-tuned if the rule says so; the global model is the one
that most replies have chosen. Do not use it when clients differ by degrees: there are no groups to find. State: none per
client, K models at the server.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees
from ...errors import not_negative, whole
from ...federation import View
from ...problem import Bilevel
from ..averaging import fedavg as averaging
from ..averaging.fedavg import LOCAL, PERSONAL, fedavg, weights_of
from ..method import Briefed, ClientSpec, Method, Round, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .groups import apart, fits_best, means_by_group
from .restarts import fits_worst, restarted


class Server(NamedTuple):
    x: PyTree  # x_j [K, n]
    chosen: Int[Array, "K"]  # replies so far that chose j
    idle: Int[Array, "K"]  # replies since the last that did


class Shared(NamedTuple):
    x: PyTree  # x_j [K, n]


class Up(NamedTuple):
    delta: PyTree  # y_i - x_{j_i} [n]
    choice: Int[Array, ""]  # j_i
    loss: Float[Array, ""]  # L_i(x_{j_i})
    solved: Bool[Array, ""]  # is H_i > 0?


class Info(NamedTuple):
    step: Float[Array, ""]  # how far all models have moved
    used: Int[Array, ""]  # models that a reply of the round has chosen


def ifca(
    problem: Bilevel,
    *,
    clusters: int = 2,
    start_spread: float | Float[Array, ""] = 0.1,
    start_seed: int = 0,
    patience: int = 0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """IFCA on problem.f1 with K = `clusters` models; `start_spread`, `start_seed` and `patience` as in the module, the rest is
    FedAvg's. patience = 0, as published: no model restarts."""
    whole("clusters", clusters)
    not_negative("start_spread", start_spread)
    whole("start_seed", start_seed, 0)
    whole("patience", patience, 0)
    base = fedavg(problem, local=local, weighting=weighting, personal=personal)

    def server_init(x: PyTree) -> Server:
        nobody = jnp.zeros(clusters, jnp.int32)
        return Server(apart(x, clusters, start_spread, start_seed), nobody, nobody)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        choice, loss = fits_best(problem.f1, shared.x, view)
        _, up = base.local((), averaging.Shared(trees.take(shared.x, choice)), own, view, spec, turn)
        return client, Up(up.delta, choice, loss, turn.steps > 0)

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        weights = weights_of(specs, weighting)
        moves = means_by_group(ups.choice, round.arrived, ups.delta, weights, clusters)
        said = round.arrived & ups.solved
        votes = jnp.sum((ups.choice[:, None] == jnp.arange(clusters)[None]) & said[:, None], axis=0, dtype=jnp.int32)
        idle, x = jnp.where(votes > 0, 0, server.idle + jnp.sum(said, dtype=jnp.int32)), trees.add(server.x, moves)
        if patience and clusters > 1:
            worst = fits_worst(ups.loss, said, round.ids)
            end = trees.add(trees.take(server.x, ups.choice[worst]), trees.take(ups.delta, worst))
            x, idle = restarted(x, idle, end, jnp.any(said), patience * clusters)
        after = Server(x, server.chosen + votes, idle)
        return after, Info(trees.norm(trees.sub(after.x, server.x)), jnp.sum(votes > 0, dtype=jnp.int32))

    def personal_model(told: Briefed, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        own = trees.take(told.offer, fits_best(problem.f1, told.offer, view)[0])
        return base.personal_model((), own, view, spec, turn)

    return base._replace(
        name="ifca",
        server_init=server_init,
        broadcast=lambda server, opening: Shared(server.x),
        local=at_client,
        aggregate=aggregate,
        sums=None,
        global_model=lambda server: trees.take(server.x, jnp.argmax(server.chosen)),
        offer=lambda server, turn: server.x,
        personal_model=personal_model,
        foreign=False,
    )
