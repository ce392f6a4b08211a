"""Partial models: some leaves of the model are shared, the others stay at the client. FedPer, FedRep, FedBN, LG-FedAvg.

Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, https://arxiv.org/abs/1912.00818 (FedPer)
Collins et al., "Exploiting Shared Representations", ICML 2021, https://arxiv.org/abs/2102.07078 (FedRep)
Li et al., "FedBN", ICLR 2021, https://arxiv.org/abs/2102.07623; Liang et al. (LG-FedAvg), 2020, https://arxiv.org/abs/2001.01523

    (y_i, v_i) <- (y_i, v_i) - tilde_gamma_t grad f1((y_i, v_i), zeta_t)     H_i times from y_i = x; v_i from where it stopped
    x <- x + sum_i w_i (y_i - x) / sum_i w_i                                  over the replies that arrived, w_i = N_i

x and y_i are the shared leaves, the only ones in a message; v_i are the kept ones: FedPer's head, FedBN's normalisation layers,
in LG-FedAvg all but the head. FedRep keeps the head and takes turns: of H steps the first H k/(k + 1), rounded down, move v_i
alone, the others y_i alone. Where no leaf is kept it is FedAvg; where all are, as in FedPer on softmax regression, which is
nothing but a head, it is `local_only`; a warning says so. The personal model is (x, v_i) after further steps of v_i alone; a
client that never took part starts them where v_i starts. The server never sees a v_i: in its global model they are as at the
start, so do not judge the method by that model. State: the kept leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Key, PyTree

from ... import keys, trees
from ...errors import whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ...problem.models.leaves import check_rule, join, split
from ..averaging.fedavg import LOCAL, Shared, Up, fedavg
from ..method import ClientSpec, Method, Turn
from ..solvers import ProjectedSgd
from .ends import tell_ends


class Server(NamedTuple):
    x: PyTree  # the shared leaves
    start: PyTree  # the others, as they were at the start


class Client(NamedTuple):
    v: PyTree  # v_i, the kept leaves


class Parts(NamedTuple):
    y: PyTree  # y_i
    v: PyTree  # v_i


def fedper(problem: Bilevel, *, kept: str = "head", local: ProjectedSgd = LOCAL, weighting: str = "data") -> Method:
    """FedPer on problem.f1: `kept` says what stays at a client, head, body, norm or a pattern (`problem.models.leaves`)."""
    return partial("fedper", problem, kept, None, local, weighting)


def fedrep(
    problem: Bilevel, *, kept: str = "head", kept_steps: int = 10, local: ProjectedSgd = LOCAL, weighting: str = "data"
) -> Method:
    """FedRep on problem.f1: k = `kept_steps` steps of the kept leaves for each of the shared ones; ten as published."""
    whole("kept_steps", kept_steps, 0)
    return partial("fedrep", problem, kept, kept_steps, local, weighting)


def fedbn(problem: Bilevel, *, kept: str = "norm", local: ProjectedSgd = LOCAL, weighting: str = "data") -> Method:
    """FedBN on problem.f1: FedAvg but for the normalisation layers."""
    return partial("fedbn", problem, kept, None, local, weighting)


def lg_fedavg(problem: Bilevel, *, kept: str = "body", local: ProjectedSgd = LOCAL, weighting: str = "data") -> Method:
    """LG-FedAvg on problem.f1: a representation of each client's own, and one head for all."""
    return partial("lg_fedavg", problem, kept, None, local, weighting)


def partial(name: str, problem: Bilevel, kept: str, kept_steps: int | None, local: ProjectedSgd, weighting: str) -> Method:
    """The method of the module; kept_steps = None: both parts move together."""
    check_rule(kept)
    base = fedavg(problem, local=local, weighting=weighting)
    joint = jax.grad(lambda parts, rows: problem.f1(join(*parts), rows))

    def moved(which: str, parts: Parts, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]) -> Parts:
        """`parts` after steps of y or v alone."""
        part = getattr(parts, which)
        if not jax.tree.leaves(part):
            return parts
        slope = lambda part, rows: getattr(joint(parts._replace(**{which: part}), rows), which)  # noqa: E731
        return parts._replace(**{which: local.descend(slope, part, view, spec, steps, key)})

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        parts, key = Parts(shared.x, client.v), keys.at(turn.key, Tag.SOLVE)
        if kept_steps is None:
            parts = local.descend(joint, parts, view, spec, turn.steps, key)
        else:
            first = turn.steps * kept_steps // (kept_steps + 1)
            parts = moved("v", parts, view, spec, first, keys.at(turn.key, Tag.PERSONAL))
            parts = moved("y", parts, view, spec, turn.steps - first, key)
        return Client(parts.v), Up(trees.sub(parts.y, shared.x))

    def server_init(x: PyTree) -> Server:
        tell_ends(name, x, kept)
        return Server(*split(x, kept))

    def personal_model(client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        parts, key = Parts(split(x, kept)[0], client.v), keys.at(turn.key, Tag.PERSONAL)
        return join(*moved("v", parts, view, spec, turn.steps, key))

    return base._replace(
        name=name,
        server_init=server_init,
        client_init=lambda x, spec: Client(split(x, kept)[1]),
        broadcast=lambda server, opening: Shared(server.x),
        local=at_client,
        global_model=lambda server: join(server.x, server.start),
        personal_model=personal_model,
        foreign=False,
        partial=True,
    )
