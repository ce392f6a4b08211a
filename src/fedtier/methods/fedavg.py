"""FedAvg: federated averaging.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, https://arxiv.org/abs/1602.05629

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     from y_i = x, H_i times
    x   <- x + sum_i w_i (y_i - x) / sum_i w_i           over the replies that arrived, w_i = N_i

With H = 1 and full participation it is gradient descent on the pooled client data. Do not expect it to converge to
the right point when clients differ and H is large: each y_i drifts to its own optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import keys, trees
from ..errors import choice, whole
from ..federation import View
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import StepSize
from .method import Method, Round, Turn
from .personal import fine_tuned
from .solvers import client_schedule, sgd


class Server(NamedTuple):
    x: PyTree  # x_r [n]


class Shared(NamedTuple):
    x: PyTree  # x_r [n]


class Up(NamedTuple):
    delta: PyTree  # y_i - x_r [n]


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|


def fedavg(
    problem: Bilevel,
    *,
    client_lr: StepSize = 0.1,
    batch: int = 32,
    weighting: str = "data",
    fine_tune: StepSize = 0.0,
) -> Method:
    """FedAvg on problem.f1. `weighting` "data" averages by rows as published, "uniform" by clients; `fine_tune` > 0
    gives each client a personal model by local steps of that size from the final x."""
    return averaging("fedavg", problem, lambda y, x: trees.zeros_like(y), client_lr, batch, weighting, fine_tune)


def averaging(
    name: str,
    problem: Bilevel,
    pull: Callable[[PyTree, PyTree], PyTree],
    client_lr: StepSize,
    batch: int,
    weighting: str,
    fine_tune: StepSize,
) -> Method:
    """FedAvg whose local gradient has `pull(y, x)` added to it."""
    lr = client_schedule(client_lr)
    whole("batch", batch)
    choice("weighting", weighting, ("data", "uniform"))
    gradient = jax.grad(problem.f1)

    def local(client: tuple, shared: Shared, own: tuple, view: View, spec: Any, turn: Turn) -> tuple[tuple, Up]:
        y = sgd(
            lambda y, rows: trees.add(gradient(y, rows), pull(y, shared.x)),
            shared.x, view, turn.steps, keys.at(turn.key, Tag.SOLVE), lr=lr, batch=batch, scale=spec.step_scale,
        )  # fmt: skip
        return client, Up(trees.sub(y, shared.x))

    def aggregate(server: Server, owns: tuple, ups: Up, specs: Any, round: Round) -> tuple[Server, Info]:
        weights = specs.weight if weighting == "data" else jnp.ones_like(specs.weight)
        delta = trees.mean_over(round.arrived, ups.delta, weights)
        return Server(trees.add(server.x, delta)), Info(trees.norm(delta))

    return Method(
        name=name,
        server_init=Server,
        broadcast=lambda server, round: Shared(server.x),
        local=local,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=fine_tuned(problem.f1, fine_tune, batch),
    )
