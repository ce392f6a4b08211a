"""The rows and the flat keys of the zeroth-order methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import TUNED, TUNING, Parts, Real, trained
from .decomfl import decomfl


def decomfl_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    updates: int = 1,
    perturbations: int = 10,
    smoothing: Real = 0.01,
    probes: str = "normal",
    replay: int = 0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"updates": updates, "perturbations": perturbations, "smoothing": smoothing, "probes": probes, "replay": replay}
    return more | {"averaging": averaging} | trained(client_lr, batch, fine_tune)


ENTRIES = {
    "decomfl": Entry(
        decomfl, decomfl_keys, "DeComFL", "zeroth order", "seeds and scalars: a client sends K P numbers and no model",
        bibtex.DECOMFL, recommended={"client_lr": 0.03, "updates": 20, "averaging": 3} | TUNED,
        grid={"client_lr": [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0], "fine_tune": TUNING},
    ),
}  # fmt: skip
