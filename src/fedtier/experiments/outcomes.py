"""Comparisons: the cells of a plan, each run once and found again, and what their numbers say."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..datasets import Dataset
from ..errors import FedtierWarning
from .assemble import assemble, load_data
from .comparison import METRICS, Cell, Comparison
from .config import Config
from .progress import Progress
from .run import Diverged, begin, go_on
from .run_folder import DIVERGED_FILE, LABELS_FILE, RunFolder, code_digest


class Outcome(NamedTuple):
    """A comparison with the final rows of its cells."""

    comparison: Comparison
    finals: dict[tuple[str, str], list[dict[str, Any]]]  # (method, setting) -> one row per seed


def run_cells(comparison: Comparison, progress: Progress, *, any_version: bool = False) -> Outcome:
    """Runs the cells that are not in the store yet, resumes those that were cut short, reads the others.

    A cell counts as found when the same rows and the same version of this package made it; `any_version` takes those of
    other versions too. Processes that share a store share its cells: one runs a cell, the others wait for it.
    """
    finals: dict[tuple[str, str], list[dict[str, Any]]] = {}
    progress.cells(len(comparison.cells))
    load = _one_at_a_time(load_data)
    try:
        for cell in comparison.cells:
            progress.next_cell(f"{cell.method} {cell.setting}".rstrip())
            with RunFolder(cell.folder).held(progress.waiting) as files:
                _set_stale_aside(files, load(cell.config), progress, any_version)
                rows = finished_rows(cell.folder, cell.config)
                found = rows is not None
                finals[cell.method, cell.setting] = rows if rows is not None else _run_cell(cell, files, load, progress)
                _write_labels(cell, files)
            progress.cell_done(found=found)
    finally:
        progress.end()
    return Outcome(comparison, finals)


def _run_cell(cell: Cell, files: RunFolder, load: Callable[[Config], Dataset], progress: Progress) -> list[dict[str, Any]]:
    """The final rows; none when the run diverges, which is an outcome too: the other cells matter."""
    experiment = assemble(cell.config, load(cell.config))
    run = go_on if (cell.folder / "config.toml").exists() else begin
    try:
        return run(experiment, files, progress=progress).final
    except Diverged as error:
        warnings.warn(f"{cell.method} {cell.setting}: {error}", FedtierWarning, stacklevel=3)
        return []


def _one_at_a_time(load: Callable[[Config], Dataset]) -> Callable[[Config], Dataset]:
    """`load` that remembers the last data set, and only that one: they may be large."""
    last: dict[str, Dataset] = {}

    def remembered(config: Config) -> Dataset:
        key = config.data.model_dump_json()
        if key not in last:
            last.clear()
            last[key] = load(config)
        return last[key]

    return remembered


def _set_stale_aside(files: RunFolder, dataset: Dataset, progress: Progress, any_version: bool) -> None:
    """Moves a cell that other rows or another version of this package made out of the way."""
    between_sites = (files.folder / "wire.json").exists()  # their rows are not ours to compare
    if between_sites or not (files.folder / "config.toml").exists():
        return
    found = files.made_from()
    if found.data != dataset.digest():
        why = "was made from other rows"
    elif found.code != code_digest() and not any_version:
        why = "was made by another version of fedtier"
    else:
        return
    aside = files.set_aside()
    progress.say(f"{files.folder.name}: {why}; kept in {aside}, run again")


def finished_rows(folder: Path, config: Config) -> list[dict[str, Any]] | None:
    """The final rows of a finished run, none of one that diverged, None when it is not there or not finished."""
    if (folder / DIVERGED_FILE).exists():
        return []
    final = RunFolder(folder).final_rows(config) if (folder / "clients.json").exists() else []
    return final if len(final) == config.run.seeds else None


def _write_labels(cell: Cell, files: RunFolder) -> None:
    """The file's own names of the cell, for reports; a name that says no more than the configuration is not written."""
    labels = {"method": cell.method if cell.method != cell.config.method.name else "", "setting": cell.setting}
    if any(labels.values()):
        files.write(LABELS_FILE, json.dumps(labels).encode())


def values(rows: list[dict[str, Any]], metric: str) -> np.ndarray:
    """One number per seed, in per cent where the metric is a share; NaN where there is none."""
    chosen = METRICS[metric]

    def one(row: dict[str, Any]) -> float:
        value: Any = row
        for key in chosen.path:
            value = value[key]
        return float("nan") if value is None else float(value) * (100.0 if chosen.percent else 1.0)

    return np.asarray([one(row) for row in rows])


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % interval (Student's t over seeds; NaN with a single seed)."""

    mean: float
    half: float


def interval(numbers: np.ndarray) -> Interval:
    """The mean and the half-width of its 95 % interval by Student's t; NaN where one number is too few to tell."""
    n = len(numbers)
    if n < 2:
        return Interval(float(numbers[0]) if n else float("nan"), float("nan"))
    return Interval(float(numbers.mean()), float(stats.t.ppf(0.975, n - 1) * numbers.std(ddof=1) / np.sqrt(n)))


def paired(outcome: Outcome, method: str, setting: str, metric: str) -> Interval:
    """The difference to the baseline, seed by seed: seeds share split and partition, so their spread cancels."""
    rows, base = outcome.finals[method, setting], outcome.finals.get((outcome.comparison.baseline, setting), [])
    mine, theirs = ({row["seed"]: value for row, value in zip(r, values(r, metric), strict=True)} for r in (rows, base))
    return interval(np.asarray([mine[seed] - theirs[seed] for seed in mine if seed in theirs]))
