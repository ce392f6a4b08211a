"""FedDF: the clients' models are averaged, and the average then learns what they say together of unlabelled rows.

Lin, Kong, Stich, Jaggi, "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020,
https://arxiv.org/abs/2006.07242

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)           from y_i = x, H_i times
    x   <- x + sum_i w_i (y_i - x) / sum_i w_i                as FedAvg
    x   <- x - gamma grad mean_u KL(softmax(z_u) || softmax(x's outputs))        N times, z the mean of the y_i's logits

The rows u are those that the server shows; their labels play no part. Where clients have models of their own (`fusion =
"predictions"`) there is nothing to average: they keep their models, which learn from their own rows alone, send what these say,
and x is distilled from the mean of it. (The paper has one x for each architecture, for those who have it, and steps by Adam.)
With a distillation step of 0 it is `fedavg`. The server's step starts afresh in every round. The equations are from memory. Not
where the rows that are shown are unlike the clients'. State: none, or the client's own model.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree

from ... import keys, trees
from ...errors import choice, require, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, Up, fedavg, weights_of
from ..descent import ServerDescent, descent
from ..method import ClientSpec, Method, Round, Turn
from ..parts import check_parts
from ..solvers import ProjectedSgd
from .distillation import Info, Moved, distilled, taught_by
from .divergences import divergence_of
from .learners import Learner, Lesson, Said, model_of, net, shown_to

SERVER = descent(0.1, steps=10)


class Server(NamedTuple):
    x: PyTree  # x_r [n]


class Client(NamedTuple):
    y: PyTree  # fusion = "predictions": whatever the client's learner keeps; else ()


def feddf(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    server: ServerDescent = SERVER,
    learner: Learner | None = None,
    fusion: str = "models",
    public_rows: int = 200,
    weighting: str = "data",
) -> Method:
    """FedDF on problem.f1 and problem.model. `server` makes the N steps of the distillation, over all rows that are shown;
    `fusion` "models", as published, or "predictions"; the others as in `codistil` and `fedavg`."""
    check_parts(local=local, server=server)
    choice("weighting", weighting, ("data", "uniform"))
    whole("public_rows", public_rows)
    _check(server, learner, fusion)
    model, base = model_of(problem, "feddf"), fedavg(problem, local=local, weighting=weighting)
    alone = learner or net(problem, local, divergence_of("kl"), "feddf")

    def fused(state: Server, owns: tuple, ups: Moved, specs: PyTree, round: Round) -> tuple[Server, Info]:
        delta, said = taught_by(model, state.x, ups, public_rows, round)
        x = trees.add(state.x, trees.mean_over(round.arrived, delta, weights_of(specs, weighting)))
        x, info = distilled(model, server, public_rows, x, said, round)
        return Server(x), info

    def taught(state: Server, owns: tuple, ups: Said, specs: PyTree, round: Round) -> tuple[Server, Info]:
        x, info = distilled(model, server, public_rows, state.x, ups, round)
        return Server(x), info

    def send_model(
        client: PyTree, shared: PyTree, own: tuple, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[PyTree, Moved]:
        client, up = base.local(client, shared, own, view, spec, turn)
        assert isinstance(up, Up)
        return client, Moved(up.delta, turn.steps > 0)

    def learn(client: Client, view: View, spec: ClientSpec, turn: Turn, tag: Tag) -> tuple[PyTree, Said]:
        nothing = Lesson(jnp.zeros((shown_to(view).known.shape[0], max(problem.outputs, 1))), 0.0)
        return alone.learn(client.y, nothing, view, spec, turn, keys.at(turn.key, tag))

    def send_predictions(
        client: Client, shared: tuple, own: tuple, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client, Said]:
        y, said = learn(client, view, spec, turn, Tag.SOLVE)
        return Client(y), said

    fusing = base._replace(
        name="feddf", server_init=Server, local=send_model, aggregate=fused, needs_server_data=True, seat=False, foreign=False,
        sums=None, shows=public_rows,
    )  # fmt: skip
    if fusion == "models":
        return fusing
    return fusing._replace(
        client_init=lambda x, spec: Client(alone.init(x, spec)),
        broadcast=lambda server, opening: (),
        local=send_predictions,
        aggregate=taught,
        personal_model=lambda client, x, view, spec, turn: learn(client, view, spec, turn, Tag.PERSONAL)[0],
        predict=alone.predict,
    )


def _check(server: ServerDescent, learner: Learner | None, fusion: str) -> None:
    choice("fusion", fusion, ("models", "predictions"))
    require(learner is None or fusion == "predictions", "fusion", fusion, "clients have models of their own", '"predictions"')
    plain = not server.averaging and not server.trust
    require(plain, "server", "averaging or trust", "has no meaning for a distillation", "leave both out")
