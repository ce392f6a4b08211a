"""Local only: each client alone with its own data. The second number an honest table needs.

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     whenever the plan calls client i, from where it stopped

There is no global model. If a personal model does not beat this one, the federation brought that client nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import PyTree

from ... import keys
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL
from ..method import ClientSpec, Method, Round, Turn
from ..parts import check_parts
from ..solvers import ProjectedSgd


class Client(NamedTuple):
    y: PyTree  # y_i [n]


def local_only(problem: Bilevel, *, local: ProjectedSgd = LOCAL) -> Method:
    """SGD on problem.f1 at each client, with the same local steps as every other method; nothing crosses the wire."""
    check_parts(local=local)
    gradient = jax.grad(problem.f1)

    def train(client: Client, view: View, spec: ClientSpec, turn: Turn, tag: Tag) -> PyTree:
        return local.descend(gradient, client.y, view, spec, turn.steps, keys.at(turn.key, tag))

    def at_client(client: Client, shared: tuple, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, tuple]:
        return Client(train(client, view, spec, turn, Tag.SOLVE)), ()

    def aggregate(server: tuple, owns: tuple, ups: tuple, specs: PyTree, round: Round) -> tuple[tuple, tuple]:
        return server, ()

    return Method(
        name="local_only",
        server_init=lambda x: (),
        client_init=lambda x, spec: Client(x),
        broadcast=lambda server, opening: (),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: None,
        personal_model=lambda client, x, view, spec, turn: train(client, view, spec, turn, Tag.PERSONAL),
    )
