"""The rows and the flat keys of the clustered methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import TUNED, TUNING, Parts, Real, trained
from .cfl import cfl
from .ifca import ifca


def ifca_keys(
    *,
    clusters: int = 2,
    start_spread: Real = 0.1,
    start_seed: int = 0,
    patience: int = 0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {
        "clusters": clusters,
        "start_spread": start_spread,
        "start_seed": start_seed,
        "patience": patience,
        "weighting": weighting,
    }
    return more | trained(client_lr, batch, fine_tune)


def cfl_keys(
    *,
    clusters: int = 4,
    members: int = 100,
    split_mean: Real = 0.4,
    split_longest: Real = 1.6,
    split_after: int = 20,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"split_mean": split_mean, "split_longest": split_longest, "split_after": split_after, "weighting": weighting}
    return {"clusters": clusters, "members": members} | more | trained(client_lr, batch, fine_tune)


ENTRIES = {
    "ifca": Entry(
        ifca, ifca_keys, "IFCA", "clustered", "K models; each client trains the one that fits it best", bibtex.IFCA,
        recommended={"client_lr": 0.1, "patience": 10} | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "start_spread": [0.03, 0.3], "fine_tune": TUNING},
    ),
    "cfl": Entry(
        cfl, cfl_keys, "CFL", "clustered", "FedAvg in clusters that split where their clients disagree", bibtex.CFL,
        recommended={"client_lr": 0.1} | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "split_longest": [0.4, 1.6], "fine_tune": TUNING},
    ),
}  # fmt: skip
