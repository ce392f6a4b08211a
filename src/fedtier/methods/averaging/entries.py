"""The rows and the flat keys of the averaging methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, TUNED, TUNING, Parts, Real, trained
from .fedavg import fedavg
from .fedprox import fedprox
from .scaffold import scaffold


def fedavg_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    projection: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"weighting": weighting, "averaging": averaging, "projection": projection}
    return more | trained(client_lr, batch, fine_tune)


def fedprox_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    projection: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"proximity": proximity, "weighting": weighting, "averaging": averaging, "projection": projection}
    return more | trained(client_lr, batch, fine_tune)


def scaffold_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    server_rate: Real = 1.0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"server_rate": server_rate, "averaging": averaging} | trained(client_lr, batch, fine_tune)


ENTRIES = {
    "fedavg": Entry(
        fedavg, fedavg_keys, "FedAvg", "averaging", "average of local SGD", bibtex.FEDAVG,
        recommended=CLIENT | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedprox": Entry(
        fedprox, fedprox_keys, "FedProx", "averaging", "FedAvg with a pull towards the global model", bibtex.FEDPROX,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "proximity": [0.01, 0.1], "fine_tune": TUNING},
    ),
    "scaffold": Entry(
        scaffold, scaffold_keys, "SCAFFOLD", "averaging", "FedAvg with control variates against client drift", bibtex.SCAFFOLD,
        recommended=CLIENT | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
}  # fmt: skip
