"""Ditto: a global model by FedAvg, and beside it a personal model on a rope.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
https://arxiv.org/abs/2012.04221

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)                      from y_i = x; averaged as in FedAvg
    v_i <- v_i - tilde_gamma_t (grad f1(v_i, zeta_t) + mu (v_i - x))     from where it stopped; never leaves the client

The H steps of a round are shared: the first half trains y_i, the rest v_i, so its local budget is that of the others. The
rope pulls v_i to x, but v_i never pulls x: this is what the upper level of `zo_hfl` adds. State: one model per client.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from .. import keys, trees
from ..errors import not_negative
from ..federation import View
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import StepSize
from .fedavg import Shared, Up, fedavg
from .method import Method, Turn
from .solvers import client_schedule, sgd


class Client(NamedTuple):
    v: PyTree  # v_i [n]


def ditto(
    problem: Bilevel,
    *,
    proximity: float = 0.1,
    client_lr: StepSize = 0.1,
    batch: int = 32,
    weighting: str = "data",
) -> Method:
    """Ditto on problem.f1 with mu = `proximity`; the other options are FedAvg's."""
    not_negative("proximity", proximity)
    lr = client_schedule(client_lr)
    base = fedavg(problem, client_lr=client_lr, batch=batch, weighting=weighting)
    gradient = jax.grad(problem.f1)

    def personal(v: PyTree, x: PyTree, view: View, spec: Any, steps: Any, key: Any) -> PyTree:
        return sgd(
            lambda v, rows: trees.axpy(proximity, trees.sub(v, x), gradient(v, rows)),
            v, view, steps, key, lr=lr, batch=batch, scale=spec.step_scale,
        )  # fmt: skip

    def local(client: Client, shared: Shared, own: tuple, view: View, spec: Any, turn: Turn) -> tuple[Client, Up]:
        half = (turn.steps + 1) // 2
        _, up = base.local((), shared, own, view, spec, turn._replace(steps=half))
        v = personal(client.v, shared.x, view, spec, turn.steps - half, keys.at(turn.key, Tag.PERSONAL))
        return Client(v), up

    def personal_model(client: Client, x: PyTree, view: View, spec: Any, turn: Turn) -> PyTree:
        return personal(client.v, x, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    return base._replace(
        name="ditto",
        client_init=lambda x, spec: Client(x),
        local=local,
        personal_model=personal_model,
    )
