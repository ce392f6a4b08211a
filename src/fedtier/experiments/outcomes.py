"""Comparisons: the cells of a plan, each run once and found again, and what their numbers say."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..errors import FedtierWarning
from .assemble import Experiment, assemble
from .comparison import DEFAULT_METRICS, METRICS, REGRESSION_METRICS, Cell, Comparison, Metric
from .config import Config
from .data import load_data
from .progress import Progress
from .run import Diverged, resume_experiment, run_experiment
from .run_folder import DIVERGED_FILE, LABELS_FILE, RunFolder

Finals = dict[tuple[str, str], list[dict[str, Any]]]  # (method, setting) -> one row per seed


class Outcome(NamedTuple):
    comparison: Comparison
    finals: Finals


def run_cells(comparison: Comparison, progress: Progress) -> Outcome:
    """Runs the cells that are not in the store yet, resumes those that were cut short, reads the others."""
    finals: Finals = {}
    datasets: dict[str, Any] = {}
    progress.cells(len(comparison.cells))
    try:
        for cell in comparison.cells:
            progress.next_cell(f"{cell.method} {cell.setting}".rstrip())
            rows = finished_rows(cell.folder, cell.config)
            found = rows is not None
            try:
                if rows is None and (cell.folder / "config.toml").exists():
                    rows = resume_experiment(cell.folder, progress=progress).final
                elif rows is None:
                    key = f"{cell.config.data.model_dump_json()} {cell.config.run.seed} {cell.config.run.seeds}"
                    if key not in datasets:
                        datasets = {key: load_data(cell.config)}  # one data set in memory at a time
                    experiment: Experiment = assemble(cell.config, datasets[key])
                    rows = run_experiment(cell.config, cell.folder, progress=progress, experiment=experiment).final
            except Diverged as error:  # an outcome too: the other cells matter
                warnings.warn(f"{cell.method} {cell.setting}: {error}", FedtierWarning, stacklevel=2)
            finals[cell.method, cell.setting] = rows or []
            _write_labels(cell)
            progress.cell_done(found=found)
    finally:
        progress.end()
    return Outcome(fitting(comparison, finals), finals)


def finished_rows(folder: Path, config: Config) -> list[dict[str, Any]] | None:
    """The final rows of a finished run, none of one that diverged, None when it is not there or not finished."""
    if (folder / DIVERGED_FILE).exists():
        return []
    rows = RunFolder(folder).rows() if (folder / "clients.json").exists() else []
    final = [row for row in rows if row["round"] == config.run.rounds]
    return final if len(final) == config.run.seeds else None


def _write_labels(cell: Cell) -> None:
    """The file's own names of the cell, for reports; a name that says no more than the configuration is not written."""
    labels = {"method": cell.method if cell.method != cell.config.method.name else "", "setting": cell.setting}
    if any(labels.values()):
        RunFolder(cell.folder).write(LABELS_FILE, json.dumps(labels).encode())


def values(rows: list[dict[str, Any]], metric: str) -> np.ndarray:
    """One number per seed, in per cent where the metric is a share; NaN where there is none."""
    chosen = METRICS[metric]

    def one(row: dict[str, Any]) -> float:
        value = measured(row, chosen)
        return float("nan") if value is None else float(value) * (100.0 if chosen.percent else 1.0)

    return np.asarray([one(row) for row in rows])


def measured(row: dict[str, Any], metric: Metric) -> Any:
    """The metric's value in a line of metrics.jsonl; None where the line has none."""
    value: Any = row
    for key in metric.path:
        value = None if value is None else value.get(key)
    return value


def fitting(comparison: Comparison, finals: Finals) -> Comparison:
    """The comparison with errors in place of the default accuracies where no run has an accuracy."""
    rows = [row for some in finals.values() for row in some]
    has_errors = any(measured(row, METRICS["rmse"]) is not None for row in rows)
    return (
        comparison._replace(metrics=REGRESSION_METRICS) if has_errors and comparison.metrics == DEFAULT_METRICS else comparison
    )


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % interval (Student's t over seeds; NaN with a single seed)."""

    mean: float
    half: float


def interval(numbers: np.ndarray) -> Interval:
    n = len(numbers)
    if n < 2:
        return Interval(float(numbers[0]) if n else float("nan"), float("nan"))
    return Interval(float(numbers.mean()), float(stats.t.ppf(0.975, n - 1) * numbers.std(ddof=1) / np.sqrt(n)))


def paired(outcome: Outcome, method: str, setting: str, metric: str) -> Interval:
    """The difference to the baseline, seed by seed: seeds share split and partition, so their spread cancels."""
    rows, base = outcome.finals[method, setting], outcome.finals.get((outcome.comparison.baseline, setting), [])
    mine, theirs = ({row["seed"]: value for row, value in zip(r, values(r, metric), strict=True)} for r in (rows, base))
    return interval(np.asarray([mine[seed] - theirs[seed] for seed in mine if seed in theirs]))
