"""The rows and the flat keys of the personalised methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, Parts, Real, local
from .ditto import ditto


def ditto_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"proximity": proximity, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


ENTRIES = {
    "ditto": Entry(
        ditto, ditto_keys, "Ditto", "personal", "FedAvg, and a personal model beside it that is pulled towards the global one",
        bibtex.DITTO, recommended=CLIENT, grid={"client_lr": SIZES, "proximity": [0.03, 0.3]},
    ),
}  # fmt: skip
