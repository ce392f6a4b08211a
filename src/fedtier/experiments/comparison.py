"""What a comparison file asks for: methods x settings, each pair a cell, each cell one run of all seeds.

    [data] [model] [run]           what all cells share
    [[methods]]                    label, and the keys of [method]; may hold tables data, model, run of its own, and a table
                                   search of lists: what `compare --tune` searches instead of the method's grid, {}: nothing
    [[settings]]                   label, and tables data, model, method, run; optional
    [[tuned]]                      where = "words of labels" (see `chosen`), and keys like those of [[methods]]; optional
    [compare]                      baseline = "label of a method", metrics = [...], equal_steps = true,
                                   search_rounds = 60: rounds of a point of `compare --tune`; those of the run, if left out;
                                   [60, 120, 250]: how many are best is searched too, and a cell runs so many in place of
                                   run.rounds, unless nothing is searched for its method;
                                   search_by = "personal": a search chooses by the personal models, not by the global one

A cell's configuration is the shared tables, then the setting's, then the method's, then what is tuned for it.

The fair rule. Every method sees the same rows: those of the server have a seat in the baselines (method.server_seat) unless
switched off. Every method takes the same number of local gradients in a round: run.tau is that of the method with the most
solves, and a method with fewer solves makes them longer, unless it has a tau of its own or equal_steps is off. `server_only`
has the server's part of the two-level method that it stands beside, unless it names a key of it or a preset.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import NOTHING, FedtierError, FedtierWarning, choice, nearest, require
from ..methods import registry
from ..own_code.held import is_object
from ..own_code.naming import short
from . import config as configuration
from .grids import By, Grid, checked_by, checked_grid
from .metrics import FEWEST
from .tables import TABLES, Config


class Metric(NamedTuple):
    """A column of a comparison: its heading, where it stands in a row of metrics, and whether it is shown in per cent."""

    heading: str
    path: tuple[str, ...]
    percent: bool = True


METRICS = {
    "global": Metric("global %", ("global_accuracy",)),
    "personal": Metric("personal %", ("personal_accuracy", "mean")),
    "personal_by_rows": Metric("personal by rows %", ("personal_accuracy", "by_rows")),
    "worst": Metric(f"worst client ({FEWEST}+ rows) %", ("personal_accuracy", "min")),
    "p10": Metric(f"p10 ({FEWEST}+ rows) %", ("personal_accuracy", "p10")),
    "global_on_clients": Metric("global on clients %", ("global_on_clients", "mean")),
    "loss": Metric("test loss", ("global_loss",), percent=False),
    "f": Metric("f", ("f",), percent=False),
    "rmse": Metric("rmse", ("global_rmse",), percent=False),
    "mae": Metric("mae", ("global_mae",), percent=False),
    "r2": Metric("R2", ("global_r2",), percent=False),
    "personal_rmse": Metric("personal rmse", ("personal_rmse", "mean"), percent=False),
    "worst_rmse": Metric(f"worst client's rmse ({FEWEST}+ rows)", ("personal_rmse", "max"), percent=False),
}
STORE = Path("runs/cells")
OPTIONS = ("baseline", "metrics", "equal_steps", "search_rounds", "search_by")
SERVER_KEYS = ("server_lr", "server_batch", "server_steps", "server_step", "averaging")
REFERENCES = ("fedavg", "server_only", "local_only")  # stand in every comparison of methods by name
DEFAULT_METHODS = ("zo_hfl", "fedavg", "scaffold", "ditto", "server_only", "local_only")
DEFAULT_METRICS = ("global", "personal", "worst")
REGRESSION_METRICS = ("rmse", "r2", "personal_rmse", "worst_rmse")  # in their place where the label is a number


SearchRounds = int | tuple[int, ...] | None  # of a search, where they are fewer than the run's; several: to choose from


class Cell(NamedTuple):
    """One run of a comparison: the labels of its method and its setting, its configuration, its folder in the store."""

    method: str
    setting: str
    config: Config
    folder: Path
    tuned: str = ""  # how its settings were found, where they were searched
    grid: Grid | None = None  # what is to be searched; None: the method's own grid, {}: nothing
    own_rounds: bool = False  # its run.rounds were searched too, and are the method's, not the setting's


class Comparison(NamedTuple):
    """What a comparison file asks for."""

    cells: list[Cell]
    baseline: str
    metrics: tuple[str, ...]
    search_rounds: SearchRounds = None
    search_by: By = "global"


def load_comparison(file: Path, store: Path, settings: Sequence[str] = (), baseline: str | None = None) -> Comparison:
    """The cells of a comparison file, each checked; `settings` (table.key=value) go on top of every cell."""
    return make_comparison(configuration.read_toml(file), store, settings, baseline)


def comparison_of(
    names: Sequence[str] = (), store: Path = STORE, settings: Sequence[str] = (), baseline: str | None = None
) -> Comparison:
    """The cells of a comparison of methods by name, everything else by default or by `settings`; the references stand in it
    whether named or not, and without a name DEFAULT_METHODS do. What nobody named and what needs rows at the server is left
    out, aloud, where it has none."""
    given = (*names, *(name for name in REFERENCES if name not in names)) if names else DEFAULT_METHODS
    without = _without_server(given, settings)
    left = [name for name in without if name not in names]
    if left:
        warnings.warn(f"left out for want of rows at the server: {', '.join(left)}", FedtierWarning, stacklevel=2)
    chosen = [name for name in given if name not in left]
    return make_comparison({"methods": [{"name": name} for name in chosen]}, store, settings, baseline)


def _without_server(names: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Those of the methods that cannot run because these settings leave no rows to the server."""
    share = configuration.with_settings({}, settings).get("data", {}).get("server_share")
    known = [name for name in names if name in registry.METHODS] if share == 0 else []
    return [name for name in known if registry.sketch(name, {}, central=False).needs_server_data]


def make_comparison(
    tables: dict[str, Any], store: Path, settings: Sequence[str] = (), baseline: str | None = None
) -> Comparison:
    """The cells of the tables of a comparison."""
    known = {"data", "model", "run", "attack", "clients", "method", "methods", "settings", "tuned", "compare"}
    for key in tables:
        if key not in known:
            raise FedtierError(key, NOTHING, "is no table of a comparison", nearest(key, known))
    methods = _labelled(tables.get("methods"), "methods")
    grids = {
        method: checked_grid(f"search of {method}", own.pop("search")) if "search" in own else None
        for method, own in methods.items()
    }
    variants = _labelled(tables.get("settings", [{"label": ""}]), "settings")
    shared = {key: tables[key] for key in ("data", "model", "method", "run", "attack", "clients") if key in tables}
    options = tables.get("compare", {})
    for key in options:
        require(key in OPTIONS, f"compare.{key}", options[key], "is no key", nearest(key, OPTIONS))
    equal = options.get("equal_steps", True)
    require(isinstance(equal, bool), "compare.equal_steps", equal, "must be true or false")
    rounds = _search_rounds(options.get("search_rounds"))
    metrics = tuple(options.get("metrics", DEFAULT_METRICS))
    for metric in metrics:
        choice("compare.metrics", metric, METRICS)
    base: str = baseline or options.get("baseline", next(iter(methods)))
    choice("compare.baseline", base, methods)
    tuned = _tuned(tables.get("tuned", []), [(method, setting) for setting in variants for method in methods])
    cells = []
    for setting, extra in variants.items():
        layers = {
            method: [_tables(own), *(_tables(keys) for where, keys in tuned if chosen(where, method, setting))]
            for method, own in methods.items()
        }
        merged = {method: configuration.with_settings(_merge(shared, extra, *own), settings) for method, own in layers.items()}
        own_tau = {
            method
            for method, own in layers.items()
            if any({"tau", "local_steps", "epochs"} & layer.get("run", {}).keys() for layer in own)
        }
        for method, config in _fair(merged, own_tau if equal else set(merged)).items():
            cells.append(Cell(method, setting, config, store / cell_name(config), grid=grids[method]))
    return chosen_by(Comparison(cells, base, metrics, rounds), "compare.search_by", options.get("search_by"))


def chosen_by(comparison: Comparison, name: str, by: Any) -> Comparison:
    """The comparison whose searches choose by these models, given under `name`; as it is where none are given."""
    return comparison if by is None else comparison._replace(search_by=checked_by(name, by))


def _search_rounds(given: Any) -> SearchRounds:
    several = given if isinstance(given, list) else [] if given is None else [given]
    right = all(type(rounds) is int and rounds > 0 for rounds in several)
    right = right and (not isinstance(given, list) or len(set(given)) == len(given) > 1)
    rule = "must be a whole number of rounds, 1 or more, or a list of two or more different ones"
    require(right, "compare.search_rounds", given, rule, "60: a shorter search; [60, 120, 250]: the rounds are searched too")
    return tuple(sorted(given)) if isinstance(given, list) else given


def _fair(tables: dict[str, dict[str, Any]], own_tau: set[str]) -> dict[str, Config]:
    """The configurations of one setting by the fair rule (see the module); `own_tau`: whose run.tau is left alone."""
    configs = {method: configuration.validate(content) for method, content in tables.items()}
    solves = {method: configuration.solves(config) for method, config in configs.items()}
    server = next((_server_of(config) for method, config in configs.items() if solves[method] and _server_of(config)), {})
    for method, content in tables.items():
        alone = solves[method] == 0 and _server_of(configs[method])
        if alone and not {*server, "preset", "server"} & content.get("method", {}).keys():
            configs[method] = configuration.validate(_merge(content, {"method": server}))
    most = max(solves.values())
    for method, config in configs.items():
        if method not in own_tau and solves[method] < most:  # one that solves nothing fine-tunes personal models all the same
            configs[method] = _longer(config, most / max(1, solves[method]))
    return configs


def _server_of(config: Config) -> dict[str, Any]:
    """The server's part of a method, whole where a program has given it so; empty where it has none."""
    options, whole = config.method.options, (config.method.model_extra or {}).get("server")
    if is_object(whole):
        return {"server": whole}
    return {key: options[key] for key in SERVER_KEYS} if all(key in options for key in SERVER_KEYS) else {}


def _longer(config: Config, times: float) -> Config:
    tau, fixed, epochs = config.run.tau, config.run.local_steps, config.run.epochs
    if epochs is not None:
        return config.model_copy(update={"run": config.run.model_copy(update={"epochs": times * epochs})})
    if fixed is not None:
        update = {"local_steps": round(times * fixed)}
        return config.model_copy(update={"run": config.run.model_copy(update=update)})
    longer = [times * one for one in tau] if isinstance(tau, list) else times * tau
    return config.model_copy(update={"run": config.run.model_copy(update={"tau": longer})})


def cell_name(config: Config) -> str:
    """Names a cell by what determines its numbers."""
    return f"{short(config.method.name)}-{short(config.data.name)}-{config.digest()}"


def chosen(words: str, method: str, setting: str) -> bool:
    """Whether the cell's labels hold all of these words: whole ones, in any order and case, so that "mnist" is not
    "fashion-mnist" and "1" neither "1000" nor "0.1"."""
    return set(_words(words)) <= set(_words(f"{method} {setting}"))


def only(comparison: Comparison, filters: Sequence[str]) -> Comparison:
    """The cells that any of the filters chooses, all without one; a filter that chooses none is refused."""
    for words in filters:
        _check_choice("--only", words, [(cell.method, cell.setting) for cell in comparison.cells])
    kept = [cell for cell in comparison.cells if not filters or any(chosen(w, cell.method, cell.setting) for w in filters)]
    return comparison._replace(cells=kept)


def _check_choice(name: str, words: Any, labels: Sequence[tuple[str, str]]) -> None:
    require(isinstance(words, str), name, words, "must be a text: words of the labels")
    known = dict.fromkeys(word for method, setting in labels for word in _words(f"{setting} {method}"))
    hint, asked = f"whole words of its labels: {', '.join(known)}", _words(words)
    require(bool(asked), name, words, "holds no word", hint)
    unknown = [word for word in asked if word not in known]
    why = f"no label has {' or '.join(unknown)}" if unknown else "no label has all of these words"
    require(any(chosen(words, *pair) for pair in labels), name, words, f"chooses no cell: {why}", hint)


def _words(text: str) -> list[str]:
    return re.findall(r"[\w.-]+", text.lower())


def _tables(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of [[methods]] as tables of a configuration: what is no table of its own belongs to [method]."""
    inside = {key: entry[key] for key in ("data", "model", "run", "attack", "clients") if key in entry}
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
