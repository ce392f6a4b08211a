"""The rows and the flat keys of the zeroth-order methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex, personal
from ..entry import Entry
from ..flat import CLIENT, SIZES, TUNED, TUNING, Parts, Real, local, personal_rule, trained
from .decomfl import decomfl
from .fedrzo import fedrzo
from .zoopfl import zoopfl


def decomfl_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    updates: int = 1,
    perturbations: int = 10,
    smoothing: Real = 0.01,
    probes: str = "normal",
    replay: int = 0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"updates": updates, "perturbations": perturbations, "smoothing": smoothing, "probes": probes, "replay": replay}
    return more | {"averaging": averaging} | trained(client_lr, batch, fine_tune, momentum)


def fedrzo_keys(
    *,
    form: str = "nn",
    smoothing: float = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    otherwise = personal.lower_level() if form == "bl" else personal.global_model()
    rule = personal_rule(fine_tune, batch, otherwise)
    parts = {"form": form, "smoothing": smoothing, "averaging": averaging}
    return parts | {"local": local(client_lr, batch), "personal": rule}


def zoopfl_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    perturbations: int = 10,
    smoothing: Real = 0.1,
    remap_rate: Real = 1.0,
    probes: str = "normal",
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    probing = {"perturbations": perturbations, "smoothing": smoothing, "remap_rate": remap_rate, "probes": probes}
    return probing | {"weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


ENTRIES = {
    "decomfl": Entry(
        decomfl, decomfl_keys, "DeComFL", "zeroth order", "seeds and scalars: a client sends K P numbers and no model",
        bibtex.DECOMFL, recommended={"client_lr": 0.03, "updates": 20, "averaging": 3} | TUNED,
        grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedrzo": Entry(
        fedrzo, fedrzo_keys, "FedRZO", "zeroth order", "local zeroth-order descent with one-sided differences", bibtex.FEDRZO,
        recommended={"client_lr": 0.01, "averaging": 3} | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "zoopfl": Entry(
        zoopfl, zoopfl_keys, "ZooPFL", "zeroth order", "around a black box: inputs remapped by values, outputs by each client",
        bibtex.ZOOPFL, recommended=CLIENT, grid={"client_lr": SIZES, "remap_rate": [0.1, 1.0]},
    ),
}  # fmt: skip
