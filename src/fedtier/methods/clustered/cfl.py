"""CFL: clustered federated learning by recursive splitting.

Sattler, Müller, Samek, "Clustered Federated Learning: Model-Agnostic Distributed Multi-Task Optimization under Privacy
Constraints", 2020, https://arxiv.org/abs/1910.01991

    D_i = y_i - x_c                                   c the cluster of client i; y_i by local SGD from x_c, as in FedAvg
    split c if |mean_{i in c} D_i| < e1 and max_{i in c} |D_i| > e2     from round `split_after` on
    in two, by complete linkage with the distance -cos(D_i, D_k); both parts go on from x_c
    x_c <- x_c + sum_i w_i D_i / sum_i w_i            over the replies of c that arrived; w_i = N_i

The mean is small near a stationary point of the cluster's common loss; a long D_i there says that its clients disagree. Every
client counts with its latest D_i that is not 0, so that not all need take part in a round. There are at most `clusters` models;
when all are in use nothing splits any more. A part keeps its parent's number if the lowest client number is in it. Clients are
known by their own numbers throughout: the authors' notebook takes numbers within a cluster for numbers of clients from
the second split on. Clients that were never heard stay in cluster 0.

With clusters = 1, or thresholds that are never met, it is FedAvg. e1 and e2 are lengths of updates: they depend on the model,
the step and H, and the published 0.4 and 1.6 fit the authors' net. Do not use it where no round is near a stationary point.
The personal model is the cluster's, fine-tuned if the rule says so; the global model is the largest cluster's. State: none
per client; at the server one D_i for each of `members` clients.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ... import trees
from ...errors import not_negative, require, whole
from ...federation import View
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, Shared, Up, fedavg, weights_of
from ..method import Briefed, ClientSpec, Method, Round, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .groups import means_by_group
from .splitting import Rule, Server, considered, largest, remembered, together


class Own(NamedTuple):
    x: PyTree  # x_c of the client's cluster [n]


class Info(NamedTuple):
    step: Float[Array, ""]  # how far all models have moved
    used: Int[Array, ""]  # clusters


def cfl(
    problem: Bilevel,
    *,
    clusters: int = 4,
    members: int = 100,
    split_mean: float | Float[Array, ""] = 0.4,
    split_longest: float | Float[Array, ""] = 1.6,
    split_after: int = 20,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """CFL on problem.f1: at most `clusters` clusters among at most `members` clients, e1 = `split_mean`, e2 = `split_longest`;
    the rest is FedAvg's."""
    whole("clusters", clusters)
    whole("members", members)
    not_negative("split_mean", split_mean)
    not_negative("split_longest", split_longest)
    whole("split_after", split_after, 0)
    base, rule = fedavg(problem, local=local, weighting=weighting, personal=personal), Rule(clusters, split_mean, split_longest)

    def own(server: Server, turn: Turn) -> Own:
        inside = turn.client < members  # a newcomer's number is not
        cluster = jnp.where(inside, server.cluster[jnp.minimum(turn.client, members - 1)], largest(server))
        return Own(trees.take(server.x, cluster))

    def at_client(client: tuple, shared: tuple, own: Own, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        return base.local((), Shared(own.x), (), view, spec, turn)

    def aggregate(server: Server, owns: Own, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        enough = "must be at least the number of clients"
        require(round.clients <= members, "members", members, enough, f"members = {round.clients}")
        server, fresh = remembered(server, ups, round)
        now = jnp.where(round.round >= split_after, server.used, 0)
        server = jax.lax.fori_loop(0, now, lambda c, server: considered(rule, fresh, c, server), server)
        weights = weights_of(specs, weighting)
        moves = means_by_group(server.cluster[round.ids], round.arrived, ups.delta, weights, clusters)
        return server._replace(x=trees.add(server.x, moves)), Info(trees.norm(moves), server.used)

    def personal_model(told: Briefed, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        return base.personal_model((), told.offer.x, view, spec, turn)

    return base._replace(
        name="cfl",
        server_init=lambda x: together(x, clusters, members),
        broadcast=lambda server, opening: (),
        address=own,
        local=at_client,
        aggregate=aggregate,
        sums=None,
        global_model=lambda server: trees.take(server.x, largest(server)),
        offer=own,
        personal_model=personal_model,
    )
