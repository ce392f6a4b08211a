"""The rows and the flat keys of the personalised methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, Parts, Real, local
from .apfl import apfl
from .ditto import ditto

BY_ROWS = {"weighting": "data"}
"""Authors of personal methods count clients alike; a comparison of defaults counts them by their rows for all methods."""
FINER = sorted([*SIZES, 0.0005, 0.002, 0.005, 0.02, 0.05, 0.15, 0.2, 0.5])
"""The sizes of a client's step where nothing else is searched."""


def ditto_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"proximity": proximity, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def apfl_keys(
    *,
    mixing: float = 0.5,
    mixing_rate: Real = 1.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "uniform",
    averaging: int = 0,
) -> Parts:
    more = {"mixing": mixing, "mixing_rate": mixing_rate, "weighting": weighting, "averaging": averaging}
    return more | {"local": local(client_lr, batch)}


ENTRIES = {
    "ditto": Entry(
        ditto, ditto_keys, "Ditto", "personal", "FedAvg, and a personal model beside it that is pulled towards the global one",
        bibtex.DITTO, recommended=CLIENT, grid={"client_lr": SIZES, "proximity": [0.03, 0.3]},
    ),
    "apfl": Entry(
        apfl, apfl_keys, "APFL", "personal", "a mixture of the global model and one's own, with a weight that is learnt",
        bibtex.APFL, recommended=CLIENT | BY_ROWS, grid={"client_lr": FINER},
    ),
}  # fmt: skip
