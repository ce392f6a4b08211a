"""The keys of a site's own file: its rows, and what it is willing to do; and the words that start its process.

Loads neither JAX nor data: `fedtier join` checks a file against it and must start at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from ..experiments.toml import Table, described
from ..protocol.limits import Limits

COARSE = ("decimals", "top", "noise")  # what a site may say about its predictions itself


class SiteTable(Table):
    """A site's own file: its rows, and what it is willing to do."""

    name: str = described(..., "This site's name, as in wire.sites.", example="north")
    data: str = described(
        ..., "Its rows: .npz, .csv, .parquet or a folder of images; named from this file.", example="rows.csv"
    )
    label: str = described("label", "The column that is predicted.", example="outcome")
    image_size: int | None = described(None, "Side that a folder of images is resized to.", unit="pixels", example=32, ge=1)
    test_share: float = described(
        0.2, "The last rows of the file, held back to measure the models on.", unit="share", example=0.1, ge=0, lt=1
    )
    test_rows: int | None = described(None, "So many rows are held back, instead of a share.", unit="rows", example=40, ge=0)
    radius: float | None = described(
        None, "The personal model stays within this distance of x.", unit="distance", example=0.5, ge=0
    )
    proximity: float | None = described(None, "mu of this site, instead of the run's.", example=1.0, ge=0, allow_inf_nan=False)
    max_steps: int | None = described(
        None, "Local steps a round at most, whatever the server asks.", unit="steps", example=200, ge=0
    )
    seconds: float | None = described(None, "Time of a round: as many steps as fit.", unit="seconds", example=5.0, gt=0)
    participation: float = described(1.0, "The part of the rounds it takes part in.", unit="share", example=0.5, ge=0, le=1)
    share_scores: bool = described(True, "Tells the server the accuracies on its held-back rows.", example=False)
    methods: list[str] | None = described(None, "The methods it takes part in; none: all.", example=["zo_hfl"])
    uplinks: list[Literal["values", "predictions", "models"]] = described(
        ["values", "predictions", "models"],
        "What may leave: a few values, predictions of rows that the server shows, or as many numbers as the model has.",
        example=["values"],
    )
    model: str | None = described(
        None, "A model of its own, of any kind, for methods that compare predictions.", example="sklearn:RandomForestClassifier"
    )
    decimals: int | None = described(
        None, "Digits of a probability that leaves, instead of the run's.", unit="digits", example=2, ge=0
    )
    top: int | None = described(
        None, "Classes of which a probability leaves, instead of the run's.", unit="classes", example=3, ge=0
    )
    noise: float | None = described(
        None, "Deviation of the noise on a probability that leaves, instead of the run's.", example=0.05, ge=0,
        allow_inf_nan=False,
    )  # fmt: skip
    max_model_numbers: int = described(
        100_000_000, "The largest model, message, state or minibatch it takes.", unit="numbers", example=1_000_000, ge=1
    )
    hung_after: float = described(
        3600.0,
        "Time for one letter, after which the solver is ended.",
        unit="seconds",
        example=600.0,
        gt=0,
        allow_inf_nan=False,
    )
    solver: str | None = described(None, "module:factory of a solver of its own, in any framework.", example="my_client:make")

    code: list[str] = described(
        [], "Code of its own that a run may name, from this file's folder; what is not listed is never loaded.",
        example=["my.py:method"],
    )  # fmt: skip

    @property
    def limits(self) -> Limits:
        return Limits(self.max_steps, self.seconds, self.participation, self.share_scores, self.max_model_numbers)


def site_command(file: Path, state: Path, keys: Path | None = None) -> list[str]:
    """The words that start a site in a process of its own, for `SolverProcess`."""
    return [sys.executable, "-m", "fedtier.deploy.site", *(str(path) for path in (file, state, keys) if path is not None)]
