"""Run folders back into curves: what `fedtier report` shows, read from the folders alone.

Runs that differ only in their seeds are one curve. Runs that share data, model and schedule are one setting; within it
a method is named by its title and, where it stands there more than once, by the keys that differ. A cell of a comparison
has the names of the comparison's file, unless these would give two different runs the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import NOTHING, FedtierError, require
from ..experiments import config as configuration
from ..experiments.comparison import METRICS, REGRESSION_METRICS, Cell, Comparison
from ..experiments.label_counts import LabelCounts
from ..experiments.metric_row import Row, at
from ..experiments.outcomes import Outcome
from ..experiments.run_folder import DIVERGED_FILE, LABELS_FILE, SET_ASIDE, RunFolder
from ..experiments.tables import Config
from ..methods.registry import METHODS
from ..own_code.naming import short

OF_METHOD = {("run", "tau")}  # keys outside [method] that a comparison sets per method
NO_MATTER = {
    *(("run", key) for key in ("seed", "seeds", "eval_every", "checkpoint_every", "eval_clients", "keep_personal", "metrics")),
    ("data", "folder"),
}

# The metrics of a report, where a run has them.
SHOWN = ("global", "personal_by_rows", "personal", "worst", *REGRESSION_METRICS, "loss")

Keys = dict[tuple[str, str], object]


def title_of(name: str) -> str:
    """What people call a method; one of your own by its name."""
    return METHODS[name].title if name in METHODS else short(name)


class Point(NamedTuple):
    """A client at the end of a run, on its own test rows: accuracies, or errors of a regression in the label's unit."""

    client: int
    seed: int
    shared: float | None  # of the global model
    personal: float | None
    rows: float | None = None  # how many test rows; None where the run did not write it


class Curve(NamedTuple):
    """One method in one setting, all its seeds."""

    method: str
    setting: str
    name: str  # of the method, in the registry
    config: Config
    folder: Path
    rows: list[Row]  # of all seeds, by round
    points: list[Point]
    finished: bool
    counts: LabelCounts | None
    names: tuple[str, ...] = ()  # of the clients, by number; empty where they have none
    same_clients: bool = False  # a client is the same party in every seed, an owner of rows, not a part that each seed draws
    diverged: str = ""  # why there is no end, or not for every seed
    is_baseline: bool = False  # of the comparison that ran it
    tuned: str = ""  # how that found its settings
    errors: bool = False  # the scores of its clients are errors of a regression, not accuracies

    def final(self) -> list[Row]:
        """The row of the last round of each seed that has got there."""
        last = {row["seed"]: row for row in self.rows if row["round"] == self.config.run.rounds}
        return [last[seed] for seed in sorted(last)]

    def client(self, number: int) -> str:
        """What a client is called: by its owner's name, or by its number."""
        name = self.names[number] if number < len(self.names) else str(number)
        return f"client {name}" if name.isdecimal() else name


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
        require(folder.is_dir(), "DIR", str(folder), "is not there", "give a run's folder, or one with runs in it")
        inside = [folder] if (folder / "config.toml").exists() else runs_in(folder)
        require(bool(inside), "DIR", str(folder), "holds no run", "give a run's folder, or one with runs in it")
        found += [f for f in inside if f not in found]
    runs = [load_run(folder) for folder in found]
    runs = [run for run in runs if run.rows]
    require(bool(runs), "DIR", ", ".join(map(str, folders)), "holds no run with an evaluation yet", "wait, or resume it")
    return _merged(_named(runs))


def runs_in(folder: Path) -> list[Path]:
    """The folders of runs inside `folder`, those that were set aside left out."""
    found = sorted(file.parent for file in folder.glob("**/config.toml"))
    return [run for run in found if SET_ASIDE not in run.relative_to(folder).parts]


def band(curve: Curve, across: str, path: tuple[str, ...], scale: float = 1.0) -> Band | None:
    """The metric at `path` against `across` (the key of an axis, see `style`); None where there is nothing to draw."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for row in curve.rows:
        value = at(row, path)
        if value is not None:
            groups.setdefault(row["round"], []).append((position(row, across), scale * value))
    if not groups:
        return None
    tables = [np.asarray(groups[number]) for number in sorted(groups)]
    columns = [(t[:, 0].mean(), t[:, 1].mean(), t[:, 1].min(), t[:, 1].max()) for t in tables]
    return Band(*np.asarray(columns).T)


def position(row: Row, across: str) -> float:
    """How far a run was: in rounds, in bytes, in local steps, or in virtual seconds where the run has a clock."""
    if across == "virtual_seconds":
        return row.get("virtual_seconds", 0.0)
    bytes_sent = row["bytes_up"] + row["bytes_down"]
    return float({"round": row["round"], "local_steps": row["local_steps"], "bytes": bytes_sent}[across])


def settings(curves: Iterable[Curve]) -> dict[str, list[Curve]]:
    out: dict[str, list[Curve]] = {}
    for curve in curves:
        out.setdefault(curve.setting, []).append(curve)
    return out


def outcome(curves: Sequence[Curve], baseline: str | None = None) -> Outcome:
    """The table of the runs that have got to their end; metrics that none has are left out. The baseline is the one given,
    else that of the comparison that made the runs, else the first method."""
    methods = list(dict.fromkeys(curve.method for curve in curves))
    if baseline is not None:
        known = {curve.name: curve.method for curve in reversed(curves)} | {method: method for method in methods}
        require(baseline in known, "--baseline", baseline, "is none of the methods", f"known: {', '.join(known)}")
        baseline = known[baseline]
    named = {curve.method for curve in curves if curve.is_baseline}
    baseline = baseline or (named.pop() if len(named) == 1 else methods[0])
    ended = [curve for curve in curves if curve.final()]
    finals = {(curve.method, curve.setting): curve.final() for curve in ended}
    cells = [Cell(curve.method, curve.setting, curve.config, curve.folder, curve.tuned) for curve in ended]
    rows = [row for final in finals.values() for row in final]
    metrics = tuple(metric for metric in SHOWN if any(at(row, METRICS[metric].path) is not None for row in rows))
    return Outcome(Comparison(cells, baseline, metrics), finals)


def load_run(folder: Path) -> Curve:
    """One run, without names yet."""
    config = configuration.read_written(folder / "config.toml")
    rows = sorted(RunFolder(folder).rows(), key=lambda row: (row["round"], row["seed"]))
    clients, stored, wire = (read_json(folder / name) for name in ("clients.json", "partition.json", "wire.json"))
    points = [point for seed in clients or [] for point in _points(seed)]
    counted = LabelCounts.from_object(stored) if stored else None
    names = counted.names if counted else tuple((wire or {}).get("sites", ()))
    some = "; ".join(seed.words() for seed in RunFolder(folder).diverged_seeds())
    diverged = (read_json(folder / DIVERGED_FILE) or {}).get("why", some)
    same, over = config.data.partition == "natural" or wire is not None, clients is not None
    errors = bool(clients) and "personal_rmse" in clients[0]
    made = Curve("", "", config.method.name, config, folder, rows, points, over, counted, names, same, diverged)
    return made._replace(errors=errors)


def _points(seed: dict[str, Any]) -> Iterator[Point]:
    """The clients of one seed in clients.json; older files do not tell who they are and how many test rows they have."""
    count = len(seed["personal"])
    who, held = seed.get("clients", range(count)), seed.get("held", [None] * count)
    shared, personal = seed.get("global_rmse", seed["global"]), seed.get("personal_rmse", seed["personal"])
    columns = (who, [seed["seed"]] * count, shared, personal, held)
    yield from (Point(*numbers) for numbers in zip(*columns, strict=True))


def read_json(path: Path) -> Any:
    """What a JSON file of a run holds; None where there is none."""
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        raise FedtierError(str(path), NOTHING, f"is damaged: {error}", "`fedtier resume` writes it again") from None


def _keys(config: Config) -> Keys:
    return {(table, key): value for table, content in config.model_dump().items() for key, value in content.items()}


def _named(runs: list[Curve]) -> list[Curve]:
    all_keys = [_keys(run.config) for run in runs]
    searched = [(read_json(run.folder / LABELS_FILE) or {}).get("own_rounds", False) for run in runs]
    both = list(zip(all_keys, searched, strict=True))
    of_setting = [{k: v for k, v in keys.items() if not _of_method(k, own) and k not in NO_MATTER} for keys, own in both]
    of_method = [{k: v for k, v in keys.items() if _of_method(k, own)} for keys, own in both]
    apart = _differing(of_setting)
    out = []
    for run, setting, own in zip(runs, of_setting, of_method, strict=True):
        siblings = [m for m, other in zip(of_method, runs, strict=True) if other.name == run.name]
        title = title_of(run.name)
        words = _words(own, _differing(siblings))
        out.append(run._replace(method=f"{title} ({words})" if words else title, setting=_words(setting, apart)))
    return _labelled(out)


def _labelled(runs: list[Curve]) -> list[Curve]:
    """The names that a comparison wrote beside its cells, in place of ours, where they tell all runs apart."""
    labels = [read_json(run.folder / LABELS_FILE) or {} for run in runs]
    runs = [
        run._replace(is_baseline=label.get("baseline") == (label.get("method") or run.name), tuned=label.get("tuned", ""))
        for run, label in zip(runs, labels, strict=True)
    ]
    named = [
        run._replace(method=label.get("method") or run.method, setting=label.get("setting") or run.setting)
        for run, label in zip(runs, labels, strict=True)
    ]

    def injective(names: Sequence[object], of: Sequence[object]) -> bool:
        pairs = set(zip(names, of, strict=True))
        return len({name for name, _ in pairs}) == len({old for _, old in pairs}) == len(pairs)

    same_settings = injective([run.setting for run in named], [run.setting for run in runs])
    told_apart = injective([(r.setting, r.method) for r in named], [(r.setting, r.method) for r in runs])
    return named if same_settings and told_apart else runs


def _of_method(key: tuple[str, str], own_rounds: bool) -> bool:
    """Rounds that were searched for a method are its own: they do not make a setting."""
    return key in OF_METHOD or key[0] == "method" or (own_rounds and key == ("run", "rounds"))


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
        both = other.finished and run.finished
        out[run.setting, run.method] = other._replace(rows=ordered, points=points, finished=both)
    order = [*METHODS]
    rank = {name: order.index(name) if name in order else len(order) for name in {run.name for run in runs}}
    return sorted(out.values(), key=lambda r: (r.setting, rank[r.name], r.method))
