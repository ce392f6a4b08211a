"""Comparisons: the cells of a plan, each run once and found again, and what their numbers say."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..datasets import Dataset
from ..errors import FedtierWarning
from .assemble import assemble
from .comparison import DEFAULT_METRICS, METRICS, REGRESSION_METRICS, Cell, Comparison
from .data import load_data
from .divergence import Diverged
from .metric_row import Row, at
from .origin import code_of
from .progress import Progress
from .run import begin, go_on
from .run_folder import DIVERGED_FILE, LABELS_FILE, RunFolder
from .tables import Config

Finals = dict[tuple[str, str], list[Row]]  # (method, setting) -> one row per seed


class Outcome(NamedTuple):
    """A comparison with the final rows of its cells."""

    comparison: Comparison
    finals: Finals


def run_cells(comparison: Comparison, progress: Progress, *, any_version: bool = False) -> Outcome:
    """Runs the cells that are not in the store yet, resumes those that were cut short, reads the others.

    A cell counts as found when the same rows and the same version of this package made it; `any_version` takes those of
    other versions too. Processes that share a store share its cells: one runs a cell, the others wait for it.
    """
    finals: Finals = {}
    progress.cells(len(comparison.cells))
    load = _one_at_a_time(load_data)
    try:
        for cell in comparison.cells:
            progress.next_cell(f"{cell.method} {cell.setting}".rstrip())
            dataset = load(cell.config)  # before the cell has a folder: rows that are not there leave none
            with RunFolder(cell.folder).held(progress.waiting) as files:
                _set_stale_aside(files, cell.config, dataset, progress, any_version)
                rows = finished_rows(cell.folder, cell.config)
                found = rows is not None
                if found:
                    progress.say(*_data_lines(files))
                finals[cell.method, cell.setting] = rows if rows is not None else _run_cell(cell, files, load, progress)
                _write_labels(cell, files, comparison.baseline)
            progress.cell_done(found=found)
    finally:
        progress.end()
    return Outcome(fitting(comparison, finals), finals)


def stored_cells(comparison: Comparison, *, unfinished: bool = False, any_version: bool = False) -> Outcome:
    """The cells that the store has, and nothing is run: whole or, with `unfinished`, as far as they came, with the rows of the
    last evaluation in place of the final ones."""
    finals: Finals = {}
    for cell in comparison.cells:
        files = RunFolder(cell.folder)
        if not (cell.folder / "config.toml").exists() or (not any_version and files.made_from().code != code_of(cell.config)):
            continue
        rows = finished_rows(cell.folder, cell.config)
        if rows is None and unfinished:
            seen = files.rows()
            rows = [row for row in seen if row["round"] == seen[-1]["round"]] if seen else None
        if rows is not None:
            finals[cell.method, cell.setting] = rows
    kept = [cell for cell in comparison.cells if (cell.method, cell.setting) in finals]
    return Outcome(comparison._replace(cells=kept), finals)


def _run_cell(cell: Cell, files: RunFolder, load: Callable[[Config], Dataset], progress: Progress) -> list[Row]:
    """The final rows; none when the run diverges, which is an outcome too: the other cells matter."""
    experiment = assemble(cell.config, load(cell.config))
    run = go_on if (cell.folder / "config.toml").exists() else begin
    try:
        return run(experiment, files, progress=progress).final
    except Diverged as error:
        warnings.warn(f"{cell.method} {cell.setting}: {error}", FedtierWarning, stacklevel=3)
        return []


def _data_lines(files: RunFolder) -> list[str]:
    """What a finished cell was made from, as its run has said it."""
    path = files.folder / "partition.json"
    return json.loads(path.read_bytes())["said"] if path.exists() else []


def _one_at_a_time(load: Callable[[Config], Dataset]) -> Callable[[Config], Dataset]:
    """`load` that remembers the last data set, and only that one: they may be large."""
    last: dict[str, Dataset] = {}

    def remembered(config: Config) -> Dataset:
        key = f"{config.data.model_dump_json()} {config.run.seed} {config.run.seeds}"  # rows are prepared for each seed
        if key not in last:
            last.clear()
            last[key] = load(config)
        return last[key]

    return remembered


def _set_stale_aside(files: RunFolder, config: Config, dataset: Dataset, progress: Progress, any_version: bool) -> None:
    """Moves a cell that other rows or another version of this package made out of the way."""
    between_sites = (files.folder / "wire.json").exists()  # their rows are not ours to compare
    if between_sites or not (files.folder / "config.toml").exists():
        return
    found = files.made_from()
    if found.data != dataset.digest():
        why = "was made from other rows"
    elif found.code != code_of(config) and not any_version:
        why = "was made by another version of fedtier, or of your own code"
    else:
        return
    aside = files.set_aside()
    progress.say(f"{files.folder.name}: {why}; kept in {aside}, run again")


def finished_rows(folder: Path, config: Config) -> list[Row] | None:
    """The final rows of a finished run, none of one that diverged, None when it is not there or not finished. A run is
    finished when every seed has its row, or is known to have diverged."""
    if (folder / DIVERGED_FILE).exists():
        return []
    files = RunFolder(folder)
    final = files.final_rows(config) if (folder / "clients.json").exists() else []
    return final if len(final) == config.run.seeds - len(files.diverged_seeds()) else None


def _write_labels(cell: Cell, files: RunFolder, baseline: str) -> None:
    """What the comparison calls the cell and its baseline, and how the cell was tuned, for reports; a name that says no more
    than the configuration is left empty."""
    method = cell.method if cell.method != cell.config.method.name else ""
    how = {"tuned": cell.tuned, "own_rounds": cell.own_rounds}
    files.write(LABELS_FILE, json.dumps({"method": method, "setting": cell.setting, "baseline": baseline, **how}).encode())


def values(rows: list[Row], metric: str) -> np.ndarray:
    """One number per seed, in per cent where the metric is a share; NaN where there is none."""
    chosen = METRICS[metric]

    def one(row: Row) -> float:
        value = at(row, chosen.path)
        return float("nan") if value is None else float(value) * (100.0 if chosen.percent else 1.0)

    return np.asarray([one(row) for row in rows])


def fitting(comparison: Comparison, finals: Finals) -> Comparison:
    """The comparison with errors in place of the default accuracies where no run has an accuracy."""
    rows = [row for some in finals.values() for row in some]
    has_errors = any(at(row, METRICS["rmse"].path) is not None for row in rows)
    return (
        comparison._replace(metrics=REGRESSION_METRICS) if has_errors and comparison.metrics == DEFAULT_METRICS else comparison
    )


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % interval over seeds (NaN with a single seed)."""

    mean: float
    half: float

    def excludes_zero(self) -> bool:
        """Whether the sign of the mean is certain; never from a single seed."""
        return abs(self.mean) > self.half  # False where either is NaN


def interval(numbers: np.ndarray, ratio: float = 0.0) -> Interval:
    """Mean and t(n - 1, 97.5 %) s sqrt(1/n + ratio) of n seeds.

    `ratio` is n_test/n_train where every seed splits the same rows anew. The seeds then share most of their training rows,
    so their scores are correlated and s/sqrt(n), which is right for independent ones (ratio 0), is too small: Nadeau and
    Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003), the corrected resampled t.
    """
    n = len(numbers)
    if n < 2:
        return Interval(float(numbers[0]) if n else float("nan"), float("nan"))
    from scipy.special import stdtrit  # scipy.stats takes two seconds to load

    return Interval(float(numbers.mean()), float(stdtrit(n - 1, 0.975) * numbers.std(ddof=1) * np.sqrt(1 / n + ratio)))


def resampling_ratio(config: Config, metric: str) -> float:
    """n_test/n_train where each seed draws the rows that judge this metric anew, 0 where all seeds are judged on the same.

    Global metrics are judged on the test rows, which data.test_seed fixes for all seeds, personal ones on the clients' own test
    rows, which every seed draws anew. With data.validation_share both are judged on rows taken from the training rows instead,
    drawn anew too. f is no test: it is measured on the rows that were trained on.
    """
    data, rest = config.data, 1 - config.data.test_share  # the default's tenth stands for a published test set
    if data.split and not data.validation_share:
        return 0.0
    server, clients = rest * data.server_share, rest * (1 - data.server_share) * (1 - data.client_test_share)  # to train on
    held = rest * (1 - data.server_share) * data.client_test_share
    tested = 0.0 if data.test_seed is not None or data.test == "published" else data.test_share
    if data.validation_share:
        held = clients * data.validation_share
        tested = server * data.validation_share or held  # without rows at the server the clients' judge both
        server, clients = server * (1 - data.validation_share), clients - held
    what = METRICS[metric].path[0]
    of_clients = what.startswith("personal") or what.endswith("on_clients")
    return (held if of_clients else 0.0 if what == "f" else tested) / (server + clients)


def score(outcome: Outcome, method: str, setting: str, metric: str) -> Interval:
    """The metric of one cell."""
    return interval(values(outcome.finals[method, setting], metric), _ratio(outcome, method, setting, metric))


def paired(outcome: Outcome, method: str, setting: str, metric: str, other: str | None = None) -> Interval:
    """The difference to `other`, by default the baseline, seed by seed: seeds share split and partition, so their spread
    cancels."""
    base = outcome.comparison.baseline if other is None else other
    pairs = outcome.finals[method, setting], outcome.finals.get((base, setting), [])
    mine, theirs = ({row["seed"]: value for row, value in zip(r, values(r, metric), strict=True)} for r in pairs)
    differences = np.asarray([mine[seed] - theirs[seed] for seed in mine if seed in theirs])
    return interval(differences, _ratio(outcome, method, setting, metric))


def _ratio(outcome: Outcome, method: str, setting: str, metric: str) -> float:
    cell = next(cell for cell in outcome.comparison.cells if (cell.method, cell.setting) == (method, setting))
    return resampling_ratio(cell.config, metric)
