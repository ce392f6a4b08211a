"""Searches: a grid as one vectorised program where that can be, judged on rows that are not the test's.

    [data] [model] [method] [run]        as in a configuration
    [search]                             lists: penalty = [1, 10], server_lr = [0.3, 1.0], "model.hidden" = [32, 64];
                                         by = "personal": the other way round (below)

Every point of the grid runs with every seed. The score is the accuracy of the global model, or its rmse where the label is a
number, on `data.validation_share` (10 % unless set) of the server's rows (of the clients', where it has none), and among
equals, or for a method without a global model, that of the personal models on as many of the clients' rows, mean over
clients; by "personal" the other way round. The test rows are not looked at. Penalties and step sizes (SEARCHABLE) run all at
once; any other key, "TABLE.KEY", changes the program, so that each of its values is a program of its own. So is `fine_tune =
0`, which switches fine-tuning off, and each shape of a step size: client_lr = [0.01, 0.03, "inverse(0.1)", "inverse(0.3)"]
are two programs. Points that differ in `fine_tune` alone share one training.
"""

from __future__ import annotations

import itertools
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..engines import Engine, compiled, sweep
from ..errors import nearest, require
from ..federation import Federation, Plan
from ..methods import registry
from ..schedules import shape_of, size_of
from . import config as configuration
from .assemble import Experiment, assemble, with_options
from .grids import BY, SEARCHABLE, STEPS, By, Grid, Value, at_an_end, checked_by, checked_grid, shape, written
from .metrics import Scores, evaluated_clients, measure_of, personal_steps, scores_of, spread
from .tables import TABLES, Config

FEW_ROWS = 50  # validation rows below which a search says how few judge
SHARE = 0.1  # of the training rows, where the configuration names none
NUMBER = "number"  # a step of the shape that the configuration has
TUNE = "fine_tune"  # acts on the trained model alone; 0 is not a small number but another program
Shapes = tuple[tuple[str, str], ...]  # step sizes of the training with a shape of their own, and which


class Point(NamedTuple):
    """One point of a grid: the values of the searched keys, and what they reached."""

    options: dict[str, Any]
    overall: np.ndarray  # [seeds] the global model's accuracy, or rmse in deviations of the label, on the validation rows
    personal: np.ndarray  # [seeds] of the personal models, mean over clients

    def score(self, measure: str, by: By) -> tuple[float, ...]:
        """Means over the seeds, what is chosen by first, the larger the better; what there is not comes last."""
        sign = 1.0 if measure == "accuracy" else -1.0
        scores = [sign * float(of_seeds.mean()) for of_seeds in (self.overall, self.personal)]
        ordered = scores if by == "global" else scores[::-1]
        return tuple(-np.inf if np.isnan(score) else score for score in ordered)


class Search(NamedTuple):
    """What a search found, and how long it took."""

    config: Config
    points: list[Point]  # best first
    seconds: float
    measure: Literal["accuracy", "rmse"]
    judged: Mapping[str, int]  # validation rows of a seed that judge these models
    by: By = "global"
    best: dict[str, Any] = {}  # noqa: RUF012  the tables of a configuration with the best values

    @property
    def level(self) -> int:
        """How many points at the top have the same scores; the order among them means nothing."""
        scores = [point.score(self.measure, self.by) for point in self.points]
        return next((k for k, score in enumerate(scores) if score != scores[0]), len(scores))

    @property
    def ends(self) -> dict[str, Any]:
        """The keys whose best value is the smallest or the largest of more than two, with it; none where points are level."""
        first = self.points[0].options
        tried = {key: [point.options[key] for point in self.points] for key in first}
        ordered = {key: values for key, values in tried.items() if key in SEARCHABLE or all(map(_is_number, values))}
        grid = {key: list(dict.fromkeys(values)) for key, values in ordered.items()}
        return {key: first[key] for key in at_an_end(grid, {key: first[key] for key in grid})} if self.level == 1 else {}


class Order(NamedTuple):
    """What is to be searched."""

    tables: dict[str, Any]  # of the configuration, as they were given
    config: Config
    grid: dict[str, list[Any]]  # keys of SEARCHABLE, and TABLE.KEY
    by: By = "global"


def load_search(file: Path, settings: tuple[str, ...] = ()) -> tuple[Config, dict[str, list[Any]]]:
    """The checked configuration and grid of a search file."""
    order = order_search(file, settings)
    return order.config, order.grid


def order_search(file: Path | None, settings: Sequence[str] = (), over: Sequence[str] = (), by: str | None = None) -> Order:
    """What a file asks for, with settings on top and further keys, `KEY=a,b,c`; each value is checked. `by`: in place of the
    file's."""
    tables = configuration.read_toml(file) if file is not None else {}
    listed = tables.pop("search", {})
    in_file = listed.pop("by", BY[0]) if isinstance(listed, dict) else BY[0]
    chosen_by = checked_by("search.by", in_file) if by is None else checked_by("--by", by)
    hint = "[search]\npenalty = [1, 10], or --over method.penalty=1,10"
    require(isinstance(listed, dict) and bool(listed or over), "search", listed or None, "must be a table of lists", hint)
    tables = configuration.with_settings(tables, settings)
    judged: dict[str, Any] = tables | {"data": {"validation_share": SHARE} | tables.get("data", {})}
    config = configuration.validate(judged)
    require(config.data.validation_share > 0, "data.validation_share", 0.0, "a search never looks at the test rows", "0.1")
    grid = {_key(config, key): values for key, values in (*_listed(listed), *map(_parsed, over))}
    grid |= checked_grid("search", {key: values for key, values in grid.items() if key in SEARCHABLE})
    for key, values in grid.items():
        require(isinstance(values, list) and bool(values), f"search.{key}", values, "must be a list of values")
        for value in values:
            configuration.validate(_changed(judged, key, value))
    return Order(tables, config, grid, chosen_by)


def _listed(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of [search], of its inner tables as TABLE.KEY."""
    for key, values in table.items():
        inner = values.items() if isinstance(values, dict) else ()
        yield from ((f"{key}.{name}", inside) for name, inside in inner) if isinstance(values, dict) else [(key, values)]


def _parsed(setting: str) -> tuple[str, list[Any]]:
    key, equals, text = setting.partition("=")
    require(bool(equals and text), "--over", setting, "must read KEY=a,b,c", "for example --over model.hidden=32,64")
    try:
        values = tomllib.loads(f"values = {text if text.startswith('[') else f'[{text}]'}")["values"]
    except tomllib.TOMLDecodeError:
        values = [configuration.value_of(word) for word in re.split(r",(?![^(]*\))", text)]  # "inverse(0.1, 2)" is one
    return key.strip(), values


def _key(config: Config, key: str) -> str:
    """The key as a grid has it: SEARCHABLE by its name alone, any other with its table."""
    bare = key.removeprefix("method.")
    if bare in SEARCHABLE:
        return bare
    table, dot, _ = key.partition(".")
    if dot and table in TABLES:
        return key
    options = registry.options(config.method.entry)
    known = (*SEARCHABLE, *options, *(f"{one}.{name}" for one in TABLES for name in TABLES[one].model_fields))
    require(key in options, "search", key, "is no key", nearest(key.removeprefix("search_"), ("by", *known)))
    return f"method.{key}"


def _changed(tables: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    table, dot, name = key.partition(".")
    table, name = (table, name) if dot else ("method", key)
    return tables | {table: tables.get(table, {}) | {name: value}}


def search(order: Order, said: Callable[[Experiment], None] = lambda experiment: None) -> Search:
    """Runs the whole order: one program for each combination of the keys that change it. `said` hears of the first."""
    clock, judged = time.perf_counter(), order.tables | {"data": order.config.data.model_dump(exclude_unset=True)}
    at_once = {key: values for key, values in order.grid.items() if key in SEARCHABLE}
    each = {key: values for key, values in order.grid.items() if key not in SEARCHABLE}
    found: list[tuple[Point, dict[str, Any]]] = []
    measure, judged_rows = "accuracy", dict.fromkeys(BY, 0)
    for number, values in enumerate(itertools.product(*each.values())):
        tables, chosen = judged, dict(zip(each, values, strict=True))
        for key, value in chosen.items():
            tables = _changed(tables, key, value)
        config = configuration.validate(tables)
        experiment = assemble(config)
        if number == 0:
            said(experiment)
        part = run_search(config, at_once, experiment, order.by)
        measure, judged_rows = part.measure, part.judged
        for point in part.points:
            found.append((point._replace(options=chosen | point.options), _with_best(tables, config, point.options)))
    found.sort(key=lambda pair: pair[0].score(measure, order.by), reverse=True)
    seconds, points = time.perf_counter() - clock, [point for point, _ in found]
    return Search(order.config, points, seconds, measure, judged_rows, order.by, _to_run(found[0][1], order))


def _with_best(tables: dict[str, Any], config: Config, options: dict[str, Value]) -> dict[str, Any]:
    given = config.method.options
    for key, value in options.items():
        tables = _changed(tables, key, written(given, key, value))
    return tables


def _to_run(tables: dict[str, Any], order: Order) -> dict[str, Any]:
    """The tables of the best point for a run of its own, which is judged on test rows."""
    searched = {key.partition(".")[2] for key in order.grid if key.startswith("data.")}
    given = {*order.tables.get("data", {}), *searched} - {"validation_share"}
    data = {key: value for key, value in tables["data"].items() if key in given}
    rest = {name: content for name, content in tables.items() if name != "data" and content}
    return ({"data": data} if data else {}) | rest


def run_search(config: Config, grid: Grid, experiment: Experiment | None = None, by: By = "global") -> Search:
    """Runs the whole grid, best first; a point that diverges scores NaN and stands last."""
    clock = time.perf_counter()
    require(config.run.rounds > 0, "run.rounds", config.run.rounds, "a search needs at least one round")
    experiment = experiment or assemble(config)
    task, rule = experiment.dataset.task, "has no labels, hence nothing to search by"
    require(task != "two_level", "data.name", config.data.name, rule, "compare runs of it: `fedtier compare`")
    rule = "a search is one compiled program, and a black box has none"
    require(experiment.compiles, "method", config.method.name, rule, "compare runs of it: `fedtier compare`")
    measure = "accuracy" if task == "classification" else "rmse"
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    found: dict[int, Point] = {}
    for shapes in {_shapes(point) for point in points}:
        alike = [k for k, point in enumerate(points) if _shapes(point) == shapes]
        for k, scores in zip(alike, _scored(experiment, [points[k] for k in alike], shapes), strict=True):
            overall = np.where(np.isfinite(scores.global_loss), getattr(scores.test, measure), np.nan)
            found[k] = Point(points[k], overall, mean_over_clients(getattr(scores.personal, measure)))
    ranked = sorted((found[k] for k in range(len(points))), key=lambda point: point.score(measure, by), reverse=True)
    windows = {"global": experiment.federation.test, "personal": experiment.federation.held}
    judged = {of: int(np.asarray(window.size)[0].sum()) for of, window in windows.items()}
    return Search(config, ranked, time.perf_counter() - clock, measure, judged, by)


def _training(point: dict[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in point.items() if name != TUNE}


def _shapes(point: dict[str, Value]) -> Shapes:
    """What makes the trainings of points one program."""
    return tuple((name, shape(value)) for name, value in _training(point).items() if isinstance(value, str))


def _scored(experiment: Experiment, points: list[dict[str, Value]], shapes: Shapes) -> list[Scores]:
    """The scores [seeds] of each of `points`, whose trainings have these shapes, after the last round. A model is trained once
    and then judged with every value of fine_tune."""
    rounds, chosen = experiment.config.run.rounds, evaluated_clients(experiment)
    steps, step_sizes = personal_steps(experiment, rounds)[chosen], experiment.config.method.options | dict(shapes)
    trainings = [dict(items) for items in dict.fromkeys(tuple(_training(point).items()) for point in points)]
    tunes = dict.fromkeys(point.get(TUNE) for point in points)
    forms = [(form, [value for value in tunes if _tune_form(value) == form]) for form in dict.fromkeys(map(_tune_form, tunes))]

    def final(point: PyTree, federation: Federation, /, *of_seed: PyTree) -> list[Scores]:
        (options, _), (x, plan, key) = point, of_seed
        own = {name: shape_of(name, step_sizes[name])(value) if name in STEPS else value for name, value in options.items()}

        def engine_of(traced: Experiment) -> Engine:
            return compiled(traced.method, capacity=rounds, devices=(), history=experiment.plan.history)

        engine = engine_of(with_options(experiment, own))
        state, _ = engine.advance(engine.init(x, federation), federation, plan, key, 0, rounds)

        def judged(tune: dict[str, Any]) -> Scores:
            traced = with_options(experiment, own | tune)
            scores = engine_of(traced).evaluate(state, federation, key, rounds, steps, measure_of(traced), chosen)
            return scores_of(scores)

        def of_form(form: str | None, sizes: list[float]) -> Scores:  # leading axis [sizes]
            if not form:
                return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], judged({} if form is None else {TUNE: 0.0}))
            schedule = shape_of(TUNE, form if form != NUMBER else step_sizes[TUNE])
            return jax.lax.map(lambda size: judged({TUNE: schedule(size)}), jnp.asarray(sizes, jnp.float32))

        return [of_form(form, [size_of(value) for value in values if value is not None]) for form, values in forms]

    columns = {name: jnp.asarray([size_of(training[name]) for training in trainings], jnp.float32) for name in trainings[0]}
    numbered = (columns, jnp.arange(len(trainings)))  # a grid of fine_tune alone still has a row
    found = sweep(final, numbered, experiment.federation, experiment.x, _on_device(experiment.plan), experiment.key)
    by_tune = {value: (scores, j) for (_, values), scores in zip(forms, found, strict=True) for j, value in enumerate(values)}
    chosen_of = [(*by_tune[point.get(TUNE)], trainings.index(_training(point))) for point in points]
    return [jax.tree.map(lambda leaf, k=k, j=j: leaf[k, :, j], scores) for scores, j, k in chosen_of]


def _tune_form(value: Value | None) -> str | None:
    """What values of fine_tune that are one program have in common; "" switches it off, None leaves it as it is."""
    return None if value is None else "" if value == 0 else shape(value) or NUMBER


def mean_over_clients(accuracies: np.ndarray) -> np.ndarray:
    """[seeds] of [seeds, clients], over the clients that have one; NaN where none has."""
    means = [spread(seed)["mean"] for seed in accuracies]
    return np.asarray([np.nan if mean is None else mean for mean in means])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _on_device(plan: Plan) -> Any:
    return jax.tree.map(jnp.asarray, plan._replace(seconds=None))
