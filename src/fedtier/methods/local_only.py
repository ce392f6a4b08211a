"""Local only: each client alone with its own data. The second number an honest table needs.

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     whenever the plan calls client i, from where it stopped

There is no global model. If a personal model does not beat this one, the federation brought that client nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from .. import keys
from ..errors import whole
from ..federation import View
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import StepSize
from .method import Method, Round, Turn
from .solvers import client_schedule, sgd


class Client(NamedTuple):
    y: PyTree  # y_i [n]


def local_only(problem: Bilevel, *, client_lr: StepSize = 0.1, batch: int = 32) -> Method:
    """SGD on problem.f1 at each client, with the same local steps as every other method; nothing crosses the wire."""
    lr = client_schedule(client_lr)
    whole("batch", batch)

    def train(client: Client, view: View, spec: Any, turn: Turn, tag: Tag) -> PyTree:
        key = keys.at(turn.key, tag)
        return sgd(jax.grad(problem.f1), client.y, view, turn.steps, key, lr=lr, batch=batch, scale=spec.step_scale)

    def local(client: Client, shared: tuple, own: tuple, view: View, spec: Any, turn: Turn) -> tuple[Client, tuple]:
        return Client(train(client, view, spec, turn, Tag.SOLVE)), ()

    def aggregate(server: tuple, owns: tuple, ups: tuple, specs: Any, round: Round) -> tuple[tuple, tuple]:
        return server, ()

    return Method(
        name="local_only",
        server_init=lambda x: (),
        client_init=lambda x, spec: Client(x),
        broadcast=lambda server, round: (),
        local=local,
        aggregate=aggregate,
        global_model=lambda server: None,
        personal_model=lambda client, x, view, spec, turn: train(client, view, spec, turn, Tag.PERSONAL),
    )
