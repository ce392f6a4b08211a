"""Comparisons: methods x settings x seeds from one TOML. A cell is one run; it runs once and is found again.

    [data] [model] [run]           what all cells share
    [[methods]]                    label, and the keys of [method]; may hold tables data, model, run of its own
    [[settings]]                   label, and tables data, model, method, run; optional
    [[tuned]]                      where = "words of labels" (see `chosen`), and keys like those of [[methods]]; optional
    [compare]                      baseline = "label of a method", metrics = [...]

A cell's configuration is the shared tables, then the setting's, then the method's, then what is tuned for it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..errors import NOTHING, FedtierError, FedtierWarning, choice, nearest, require
from . import config as configuration
from .assemble import Experiment, assemble, load_data
from .config import TABLES, Config
from .progress import Progress
from .run import Diverged, resume, run
from .store import DIVERGED_FILE, LABELS_FILE, Store


class Metric(NamedTuple):
    heading: str
    path: tuple[str, ...]
    percent: bool = True


METRICS = {
    "global": Metric("global %", ("global_accuracy",)),
    "personal": Metric("personal %", ("personal_accuracy", "mean")),
    "worst": Metric("worst client %", ("personal_accuracy", "min")),
    "p10": Metric("p10 %", ("personal_accuracy", "p10")),
    "global_on_clients": Metric("global on clients %", ("global_on_clients", "mean")),
    "loss": Metric("test loss", ("global_loss",), percent=False),
    "f": Metric("f", ("f",), percent=False),
}
DEFAULT_METRICS = ("global", "personal", "worst")


class Cell(NamedTuple):
    method: str
    setting: str
    config: Config
    folder: Path


class Plan(NamedTuple):
    """What a comparison file asks for."""

    cells: list[Cell]
    baseline: str
    metrics: tuple[str, ...]


class Outcome(NamedTuple):
    plan: Plan
    finals: dict[tuple[str, str], list[dict[str, Any]]]  # (method, setting) -> one row per seed


def read(file: Path, store: Path, settings: Sequence[str] = (), baseline: str | None = None) -> Plan:
    """The cells of a comparison file, each checked; `settings` (table.key=value) go on top of every cell."""
    return plan(configuration.read_toml(file), store, settings, baseline)


def from_names(names: Sequence[str], store: Path, settings: Sequence[str] = (), baseline: str | None = None) -> Plan:
    """The cells of a comparison of methods by name, everything else by default or by `settings`."""
    return plan({"methods": [{"name": name} for name in names]}, store, settings, baseline)


def plan(tables: dict[str, Any], store: Path, settings: Sequence[str] = (), baseline: str | None = None) -> Plan:
    """The cells of the tables of a comparison."""
    known = {"data", "model", "run", "method", "methods", "settings", "tuned", "compare"}
    for key in tables:
        if key not in known:
            raise FedtierError(key, NOTHING, "is no table of a comparison", nearest(key, known))
    methods = _labelled(tables.get("methods"), "methods")
    variants = _labelled(tables.get("settings", [{"label": ""}]), "settings")
    shared = {key: tables[key] for key in ("data", "model", "method", "run") if key in tables}
    options = tables.get("compare", {})
    for key in options:
        require(
            key in ("baseline", "metrics"), f"compare.{key}", options[key], "is no key", nearest(key, ("baseline", "metrics"))
        )
    metrics = tuple(options.get("metrics", DEFAULT_METRICS))
    for metric in metrics:
        choice("compare.metrics", metric, METRICS)
    base: str = baseline or options.get("baseline", next(iter(methods)))
    choice("compare.baseline", base, methods)
    tuned = _tuned(tables.get("tuned", []), [(method, setting) for setting in variants for method in methods])
    cells = []
    for setting, extra in variants.items():
        for method, own in methods.items():
            layers = [own, *(keys for where, keys in tuned if chosen(where, method, setting))]
            merged = configuration.with_settings(_merge(shared, extra, *map(_tables, layers)), settings)
            cell_config = configuration.check(merged)
            cells.append(Cell(method, setting, cell_config, store / cell_name(cell_config)))
    return Plan(cells, base, metrics)


def cell_name(config: Config) -> str:
    """Names a cell by what determines its numbers."""
    return f"{config.method.name}-{config.data.name}-{config.digest()}"


def play(plan: Plan, progress: Progress) -> Outcome:
    """Runs the cells that are not in the store yet, resumes those that were cut short, reads the others."""
    finals: dict[tuple[str, str], list[dict[str, Any]]] = {}
    datasets: dict[str, Any] = {}
    progress.cells(len(plan.cells))
    try:
        for cell in plan.cells:
            progress.next_cell(f"{cell.method} {cell.setting}".rstrip())
            rows = finished_rows(cell.folder, cell.config)
            found = rows is not None
            try:
                if rows is None and (cell.folder / "config.toml").exists():
                    rows = resume(cell.folder, progress=progress).final
                elif rows is None:
                    key = cell.config.data.model_dump_json()
                    if key not in datasets:
                        datasets = {key: load_data(cell.config)}  # one data set in memory at a time
                    experiment: Experiment = assemble(cell.config, datasets[key])
                    rows = run(cell.config, cell.folder, progress=progress, experiment=experiment).final
            except Diverged as error:  # an outcome too: the other cells matter
                warnings.warn(f"{cell.method} {cell.setting}: {error}", FedtierWarning, stacklevel=2)
            finals[cell.method, cell.setting] = rows or []
            _write_labels(cell)
            progress.cell_done(found=found)
    finally:
        progress.end()
    return Outcome(plan, finals)


def finished_rows(folder: Path, config: Config) -> list[dict[str, Any]] | None:
    """The final rows of a finished run, none of one that diverged, None when it is not there or not finished."""
    if (folder / DIVERGED_FILE).exists():
        return []
    rows = Store(folder).rows() if (folder / "clients.json").exists() else []
    final = [row for row in rows if row["round"] == config.run.rounds]
    return final if len(final) == config.run.seeds else None


def _write_labels(cell: Cell) -> None:
    """The file's own names of the cell, for reports; a name that says no more than the configuration is not written."""
    labels = {"method": cell.method if cell.method != cell.config.method.name else "", "setting": cell.setting}
    if any(labels.values()):
        Store(cell.folder).write(LABELS_FILE, json.dumps(labels).encode())


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
    n = len(numbers)
    if n < 2:
        return Interval(float(numbers[0]) if n else float("nan"), float("nan"))
    return Interval(float(numbers.mean()), float(stats.t.ppf(0.975, n - 1) * numbers.std(ddof=1) / np.sqrt(n)))


def paired(outcome: Outcome, method: str, setting: str, metric: str) -> Interval:
    """The difference to the baseline, seed by seed: seeds share split and partition, so their spread cancels."""
    rows, base = outcome.finals[method, setting], outcome.finals.get((outcome.plan.baseline, setting), [])
    mine, theirs = ({row["seed"]: value for row, value in zip(r, values(r, metric), strict=True)} for r in (rows, base))
    return interval(np.asarray([mine[seed] - theirs[seed] for seed in mine if seed in theirs]))


def chosen(words: str, method: str, setting: str) -> bool:
    """Whether the cell's labels hold all of these words: whole ones, in any order and case, so that "mnist" is not
    "fashion-mnist" and "1" neither "1000" nor "0.1"."""
    return set(_words(words)) <= set(_words(f"{method} {setting}"))


def only(plan: Plan, filters: Sequence[str]) -> Plan:
    """The cells that any of the filters chooses, all without one; a filter that chooses none is refused."""
    for words in filters:
        _check_choice("--only", words, [(cell.method, cell.setting) for cell in plan.cells])
    kept = [cell for cell in plan.cells if not filters or any(chosen(w, cell.method, cell.setting) for w in filters)]
    return plan._replace(cells=kept)


def _check_choice(name: str, words: Any, labels: Sequence[tuple[str, str]]) -> None:
    require(isinstance(words, str), name, words, "must be a text: words of the labels")
    known = dict.fromkeys(word for method, setting in labels for word in _words(f"{setting} {method}"))
    some = any(chosen(words, *pair) for pair in labels)
    require(some, name, words, "chooses no cell", f"whole words of its labels: {', '.join(known)}")


def _words(text: str) -> list[str]:
    return re.findall(r"[\w.-]+", text.lower())


def _tables(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of [[methods]] as tables of a configuration: what is no table of its own belongs to [method]."""
    inside = {key: entry[key] for key in ("data", "model", "run") if key in entry}
    return inside | {"method": {key: value for key, value in entry.items() if key not in inside}}


def _tuned(entries: Any, labels: Sequence[tuple[str, str]]) -> list[tuple[str, dict[str, Any]]]:
    listed = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    require(listed, "tuned", entries, "must be a list of tables", '[[tuned]]\nwhere = "scaffold"')
    for entry in entries:
        _check_choice("tuned.where", entry.get("where"), labels)
    return [(entry["where"], {key: value for key, value in entry.items() if key != "where"}) for entry in entries]


def _labelled(entries: Any, name: str) -> dict[str, dict[str, Any]]:
    listed = isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries)
    require(bool(listed), name, NOTHING, f"a comparison needs at least one [[{name}]]", f'[[{name}]]\nlabel = "..."')
    out: dict[str, dict[str, Any]] = {}
    for entry in entries:
        label = entry.get("label", entry.get("name"))
        require(isinstance(label, str), f"{name}.label", label, "must be a text")
        require(label not in out, f"{name}.label", label, "stands twice", "give each its own label")
        out[label] = {key: value for key, value in entry.items() if key != "label"}
    return out


def _merge(*layers: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for table, content in layer.items():
            if table not in TABLES:
                raise FedtierError(table, content, "is no table of a configuration", nearest(table, TABLES))
            require(isinstance(content, dict), table, content, "must be a table")
            merged[table] = merged.get(table, {}) | content
    return merged
