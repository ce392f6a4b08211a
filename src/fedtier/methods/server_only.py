"""Server only: what the server reaches with its own data. The first number an honest table needs.

    x <- x - gamma_r grad f1(x, xi_r)

It is `zo_hfl` at penalty 0. If a federated method does not beat it, the clients' data brought nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import optax
from jaxtyping import Array, Float

from .. import trees
from ..problem import Bilevel
from ..schedules import StepSize
from .method import Method, Round
from .personal import fine_tuned
from .solvers import Descent, descent


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|


def server_only(
    problem: Bilevel,
    *,
    server_lr: StepSize = 0.01,
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str | optax.GradientTransformation = "sgd",
    averaging: int = 0,
    batch: int = 32,
    fine_tune: StepSize = 0.0,
) -> Method:
    """f1 alone; nothing crosses the wire. The server's options are those of `zo_hfl`; `fine_tune` and
    `batch` as in FedAvg."""
    init, step, model = descent(
        problem.f1, server_lr=server_lr, server_batch=server_batch, server_steps=server_steps, server_step=server_step,
        averaging=averaging,
    )  # fmt: skip

    def aggregate(server: Descent, owns: tuple, ups: tuple, specs: Any, round: Round) -> tuple[Descent, Info]:
        after = step(server, trees.zeros_like(server.x), round.view, round.round, round.key)
        return after, Info(trees.norm(trees.sub(after.x, server.x)))

    return Method(
        name="server_only",
        needs_server_data=True,
        server_init=init,
        broadcast=lambda server, round: (),
        local=lambda client, shared, own, view, spec, turn: (client, ()),
        aggregate=aggregate,
        global_model=model,
        personal_model=fine_tuned(problem.f1, fine_tune, batch),
    )
