"""FedMD: clients with models of their own reach a consensus on public rows; there is no global model.

Li, Wang, "FedMD: Heterogenous Federated Learning via Model Distillation", 2019, https://arxiv.org/abs/1910.03581

    digest     y_i <- y_i - tilde_gamma_t grad mean_u D(z_u, y_i's outputs)       H_i times, u: the public rows
    revisit    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)                    H_i times, on its own rows
    z          <- the mean of the outputs of the clients that arrived, on the public rows; one that says nothing has no part

Each client first learns the public rows' labels, then its own: in round 0 z are these labels, as outputs that leave 5 % to the
other classes together. `public_labels = "none"` has no labels to show: in round 0 clients revisit alone. The paper digests the
absolute difference of class scores; here D is a choice, "logits" (its square) by default. With the server's rows as the public
ones they take no other part. With one client it is `local_only` plus digesting what it said itself. The equations are from
memory. Not where a model for everybody is wanted. State: y_i.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import keys
from ...errors import choice, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL
from ..method import ClientSpec, Method, Opening, Round, Turn
from ..parts import check_parts
from ..solvers import ProjectedSgd
from .consensus import consensus, labels_as_outputs
from .digesting import digesting
from .disclosure import PLAIN, Disclosure
from .divergences import Outputs, divergence_of
from .guard import guarded
from .learners import Learner, Lesson, Said


class Server(NamedTuple):
    z: Outputs  # the consensus [P, C]
    known: Bool[Array, ""]  # is there one?


class Shared(NamedTuple):
    z: Outputs
    known: Bool[Array, ""]


class Client(NamedTuple):
    y: PyTree  # whatever the client's learner keeps


class Info(NamedTuple):
    change: Float[Array, ""]  # root mean square of the consensus's change


def fedmd(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    learner: Learner | None = None,
    divergence: str = "logits",
    public_rows: int = 200,
    public_labels: str = "shown",
    disclosure: Disclosure = PLAIN,
    check: float = 0.0,
) -> Method:
    """FedMD on problem.f1 and problem.model; `public_rows`, `divergence`, `learner`, `disclosure` and `check` as in `codistil`.
    `public_labels`: "shown", as published, or "none"."""
    check_parts(local=local)
    choice("public_labels", public_labels, ("shown", "none"))
    whole("public_rows", public_rows)
    chosen = learner or digesting(problem, local, divergence_of(divergence))
    count, rule = problem.outputs, disclosure.check()

    def broadcast(server: Server, opening: Opening) -> Shared:
        if public_labels == "none":
            return Shared(server.z, server.known)
        first = labels_as_outputs(opening.view, public_rows, count)
        return Shared(jnp.where(server.known, server.z, first), jnp.ones((), bool))

    def learn(client: Client, shared: Shared, view: View, spec: ClientSpec, turn: Turn, tag: Tag) -> tuple[PyTree, Said]:
        lesson = Lesson(shared.z, jnp.where(shared.known, 1.0, 0.0))
        return chosen.learn(client.y, lesson, view, spec, turn, keys.at(turn.key, tag))

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Said]:
        y, said = learn(client, shared, view, spec, turn, Tag.SOLVE)
        return Client(y), rule.of(said, turn.key)

    def aggregate(server: Server, owns: tuple, ups: Said, specs: PyTree, round: Round) -> tuple[Server, Info]:
        z, known = consensus(ups, round.arrived, server.z)
        return Server(z, server.known | known), Info(jnp.sqrt(jnp.mean((z - server.z) ** 2)))

    method = Method(
        name="fedmd",
        server_init=lambda x: Server(jnp.zeros((public_rows, count)), jnp.zeros((), bool)),
        client_init=lambda x, spec: Client(chosen.init(x, spec)),
        broadcast=broadcast,
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: None,
        personal_model=lambda client, x, view, spec, turn: client.y,
        predict=chosen.predict,
        needs_server_data=True,
        solves=2,
        shows=public_rows,
    )
    return guarded(method, problem, chosen, check, shares_model=False)
