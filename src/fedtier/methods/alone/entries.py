"""The rows and the flat keys of those who train alone."""

from __future__ import annotations

from ...schedules import StepSize
from .. import personal
from ..entry import Entry
from ..flat import SERVER, SIZES, TUNED, TUNING, Parts, Real, local, personal_rule, server_descent
from .local_only import local_only
from .server_only import server_only


def server_only_keys(
    *,
    server_lr: StepSize = "inverse_sqrt(0.01)",
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str = "sgd",
    server_weight_decay: Real = 0.0,
    averaging: int = 0,
    batch: int = 32,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {
        "server": server_descent(server_lr, server_batch, server_steps, server_step, averaging, 0.0, server_weight_decay),
        "personal": personal_rule(fine_tune, batch, personal.global_model()),
    }


def local_only_keys(
    *, client_lr: StepSize = "inverse(0.1)", batch: int = 32, momentum: float = 0.0, weight_decay: Real = 0.0
) -> Parts:
    return {"local": local(client_lr, batch, momentum=momentum, weight_decay=weight_decay)}


ENTRIES = {
    "server_only": Entry(
        server_only, server_only_keys, "server only", "reference", "the server's own data alone: what a federation must beat",
        recommended=SERVER | TUNED,
        grid={"server_lr": [0.0001, 0.0003, 0.001, 0.002, 0.003, 0.006, 0.01, 0.03], "fine_tune": TUNING},
    ),
    "local_only": Entry(
        local_only, local_only_keys, "local only", "reference", "each client alone: what a personal model must beat",
        recommended={"client_lr": 0.1},
        grid={"client_lr": [*SIZES, 0.0001, 0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 0.5]},
    ),
}  # fmt: skip
