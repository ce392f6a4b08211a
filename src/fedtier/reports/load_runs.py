"""Run folders back into curves: what `fedtier report` shows, read from the folders alone.

Runs that differ only in their seeds are one curve. Runs that share data, model and schedule are one setting; within it
a method is named by its title and, where it stands there more than once, by the keys that differ. A cell of a comparison
has the names of the comparison's file, unless these would give two different runs the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import NOTHING, FedtierError, require
from ..experiments import config as configuration
from ..experiments.comparison import METRICS, REGRESSION_METRICS, Cell, Comparison, Metric
from ..experiments.config import Config
from ..experiments.label_counts import LabelCounts
from ..experiments.outcomes import Outcome, measured
from ..experiments.run_folder import LABELS_FILE, RunFolder

TITLES = {
    "zo_hfl": "ZO-HFL", "fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD",
    "server_only": "server only", "local_only": "local only", "ditto": "Ditto",
}  # fmt: skip
OF_METHOD = {("run", "tau")}  # keys outside [method] that a comparison sets per method
NO_MATTER = {*(("run", key) for key in ("seed", "seeds", "eval_every", "checkpoint_every", "eval_clients")), ("data", "folder")}

Keys = dict[tuple[str, str], Any]


class Point(NamedTuple):
    """A client at the end of a run: accuracies on its own held-back rows."""

    client: int
    name: str  # of the client: its owner, or its number
    seed: int
    shared: float | None  # of the global model
    personal: float | None


class Curve(NamedTuple):
    """One method in one setting, all its seeds."""

    method: str
    setting: str
    name: str  # of the method, in the registry
    config: Config
    folder: Path
    rows: list[dict[str, Any]]  # of all seeds, by round
    points: list[Point]
    finished: bool
    counts: LabelCounts | None

    def final(self) -> list[dict[str, Any]]:
        """The last row of each seed."""
        last: dict[int, dict[str, Any]] = {}
        for row in self.rows:
            last[row["seed"]] = row
        return [last[seed] for seed in sorted(last)]


class Band(NamedTuple):
    """Mean, lowest and highest over the seeds at each evaluation."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def load_runs(folders: Sequence[Path]) -> list[Curve]:
    """The curves of runs or of stores with many runs in them; refuses what holds none."""
    found: list[Path] = []
    for folder in folders:
        inside = [folder] if (folder / "config.toml").exists() else sorted(f.parent for f in folder.glob("**/config.toml"))
        require(bool(inside), "DIR", str(folder), "holds no run", "give a run's folder, or one with runs in it")
        found += [f for f in inside if f not in found]
    runs = [load_run(folder) for folder in found]
    runs = [run for run in runs if run.rows]
    require(bool(runs), "DIR", ", ".join(map(str, folders)), "holds no run with an evaluation yet", "wait, or resume it")
    return _merged(_named(runs))


def band(curve: Curve, across: str, path: tuple[str, ...], scale: float = 1.0) -> Band | None:
    """The metric at `path` against `across` (round, bytes or local_steps); None where there is nothing to draw."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for row in curve.rows:
        value = measured(row, Metric("", path))
        if value is not None:
            groups.setdefault(row["round"], []).append((position(row, across), scale * value))
    if not groups:
        return None
    tables = [np.asarray(groups[number]) for number in sorted(groups)]
    columns = [(t[:, 0].mean(), t[:, 1].mean(), t[:, 1].min(), t[:, 1].max()) for t in tables]
    return Band(*np.asarray(columns).T)


def position(row: dict[str, Any], across: str) -> float:
    return float(row["bytes_up"] + row["bytes_down"] if across == "bytes" else row[across])


def settings(curves: Iterable[Curve]) -> dict[str, list[Curve]]:
    out: dict[str, list[Curve]] = {}
    for curve in curves:
        out.setdefault(curve.setting, []).append(curve)
    return out


def outcome(curves: Sequence[Curve], baseline: str | None = None) -> Outcome:
    """The table of these curves; metrics that no run has are left out."""
    finals = {(curve.method, curve.setting): curve.final() for curve in curves}
    methods = list(dict.fromkeys(curve.method for curve in curves))
    if baseline is not None:
        known = {curve.name: curve.method for curve in reversed(curves)} | {method: method for method in methods}
        require(baseline in known, "--baseline", baseline, "is none of the methods", f"known: {', '.join(known)}")
        baseline = known[baseline]
    cells = [Cell(curve.method, curve.setting, curve.config, curve.folder) for curve in curves]
    wanted = ("global", "personal", "worst", *REGRESSION_METRICS, "loss")
    rows = [row for some in finals.values() for row in some]
    metrics = tuple(m for m in wanted if any(measured(row, METRICS[m]) is not None for row in rows))
    return Outcome(Comparison(cells, baseline or methods[0], metrics), finals)


def load_run(folder: Path) -> Curve:
    """One run, without names yet."""
    config = configuration.load_config(folder / "config.toml")
    rows = sorted(RunFolder(folder).rows(), key=lambda row: (row["round"], row["seed"]))
    clients, stored = _json(folder / "clients.json"), _json(folder / "partition.json")
    points = [
        Point(client, name, seed["seed"], shared, personal)
        for seed in clients or []
        for client, name, shared, personal in zip(seed["clients"], seed["names"], seed["global"], seed["personal"], strict=True)
    ]
    counted = LabelCounts.from_object(stored) if stored else None
    return Curve("", "", config.method.name, config, folder, rows, points, clients is not None, counted)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        raise FedtierError(str(path), NOTHING, f"is damaged: {error}", "`fedtier resume` writes it again") from None


def _keys(config: Config) -> Keys:
    return {(table, key): value for table, content in config.model_dump().items() for key, value in content.items()}


def _named(runs: list[Curve]) -> list[Curve]:
    all_keys = [_keys(run.config) for run in runs]
    of_setting = [{k: v for k, v in keys.items() if not _of_method(k) and k not in NO_MATTER} for keys in all_keys]
    of_method = [{k: v for k, v in keys.items() if _of_method(k)} for keys in all_keys]
    apart = _differing(of_setting)
    out = []
    for run, setting, own in zip(runs, of_setting, of_method, strict=True):
        siblings = [m for m, other in zip(of_method, runs, strict=True) if other.name == run.name]
        title = TITLES.get(run.name, run.name)
        words = _words(own, _differing(siblings))
        out.append(run._replace(method=f"{title} ({words})" if words else title, setting=_words(setting, apart)))
    return _labelled(out)


def _labelled(runs: list[Curve]) -> list[Curve]:
    """The names that a comparison wrote beside its cells, in place of ours, where they tell all runs apart."""
    labels = [_json(run.folder / LABELS_FILE) or {} for run in runs]
    named = [
        run._replace(method=label.get("method") or run.method, setting=label.get("setting") or run.setting)
        for run, label in zip(runs, labels, strict=True)
    ]

    def injective(names: list[Any], of: list[Any]) -> bool:
        pairs = set(zip(names, of, strict=True))
        return len({name for name, _ in pairs}) == len({old for _, old in pairs}) == len(pairs)

    same_settings = injective([run.setting for run in named], [run.setting for run in runs])
    told_apart = injective([(r.setting, r.method) for r in named], [(r.setting, r.method) for r in runs])
    return named if same_settings and told_apart else runs


def _of_method(key: tuple[str, str]) -> bool:
    return key in OF_METHOD or key[0] == "method"


def _differing(tables: list[Keys]) -> list[tuple[str, str]]:
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def _words(keys: Keys, chosen: list[tuple[str, str]]) -> str:
    """`mnist, alpha = 0.1`: names of data sets and models stand alone."""
    plain = {("data", "name"), ("model", "name"), ("data", "partition")}
    parts = [(key, keys.get(key)) for key in chosen if keys.get(key) is not None]
    return ", ".join(
        str(value) if key in plain else f"{key[1]} = {value:g}" if isinstance(value, float) else f"{key[1]} = {value}"
        for key, value in parts
    )


def _merged(runs: list[Curve]) -> list[Curve]:
    """Runs of the same name are one curve; a seed that was run twice counts once, the run with most rounds first."""
    out: dict[tuple[str, str], Curve] = {}
    for run in sorted(runs, key=lambda r: -r.rows[-1]["round"]):
        other = out.get((run.setting, run.method))
        if other is None:
            out[run.setting, run.method] = run
            continue
        known = {row["seed"] for row in other.rows}
        rows = [*other.rows, *(row for row in run.rows if row["seed"] not in known)]
        points = [*other.points, *(point for point in run.points if point.seed not in known)]
        ordered = sorted(rows, key=lambda row: (row["round"], row["seed"]))
        out[run.setting, run.method] = other._replace(rows=ordered, points=points, finished=other.finished and run.finished)
    order = [*TITLES]
    rank = {name: order.index(name) if name in order else len(order) for name in {run.name for run in runs}}
    return sorted(out.values(), key=lambda r: (r.setting, rank[r.name], r.method))
