"""The rows and the flat keys of the methods with a shared lower level."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, TUNED, TUNING, Parts, Real, trained
from .simfbo import shrofbo, simfbo


def simfbo_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    upper_rate: Real = 1.0,
    adjoint_rate: Real = 1.0,
    adjoint_radius: Real = 10.0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    rates = {"upper_rate": upper_rate, "adjoint_rate": adjoint_rate, "adjoint_radius": adjoint_radius}
    return rates | {"averaging": averaging} | trained(client_lr, batch, fine_tune)


GRID = {"client_lr": [0.001, 0.01, 0.1, 0.5], "upper_rate": [0.1, 1.0], "fine_tune": TUNING}

ENTRIES = {
    "simfbo": Entry(
        simfbo, simfbo_keys, "SimFBO", "shared level", "tunes weight decays above a lower level that all clients share",
        bibtex.SIMFBO, recommended=CLIENT | TUNED, grid=GRID,
    ),
    "shrofbo": Entry(
        shrofbo, simfbo_keys, "ShroFBO", "shared level", "SimFBO whose solution unequal local steps do not move",
        bibtex.SIMFBO, recommended=CLIENT | TUNED, grid=GRID,
    ),
}  # fmt: skip
