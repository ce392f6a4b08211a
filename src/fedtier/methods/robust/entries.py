"""The rows and the flat keys of the robust aggregations."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, TUNED, TUNING, Parts, trained
from .coordinate_median import coordinate_median
from .rfa import rfa
from .trimmed_mean import trimmed_mean


def rfa_keys(
    *,
    iterations: int = 50,
    tolerance: float = 1e-3,
    nu: float = 1e-6,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"iterations": iterations, "tolerance": tolerance, "nu": nu, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune)


def trimmed_mean_keys(
    *,
    trim: float = 0.2,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"trim": trim, "averaging": averaging} | trained(client_lr, batch, fine_tune)


def coordinate_median_keys(
    *, client_lr: StepSize = "inverse(0.1)", batch: int = 32, averaging: int = 0, fine_tune: StepSize = 0.0
) -> Parts:
    return {"averaging": averaging} | trained(client_lr, batch, fine_tune)


GRID = {"client_lr": SIZES, "fine_tune": TUNING}
ENTRIES = {
    "rfa": Entry(
        rfa, rfa_keys, "RFA", "robust", "the geometric median of the replies", bibtex.RFA,
        recommended=CLIENT | TUNED, grid=GRID,
    ),
    "trimmed_mean": Entry(
        trimmed_mean, trimmed_mean_keys, "Trimmed mean", "robust", "the mean without each coordinate's extremes", bibtex.YIN,
        recommended=CLIENT | TUNED, grid=GRID,
    ),
    "coordinate_median": Entry(
        coordinate_median, coordinate_median_keys, "Coordinate median", "robust", "the median of each coordinate", bibtex.YIN,
        recommended=CLIENT | TUNED, grid=GRID,
    ),
}  # fmt: skip
