"""Searches: a grid of step sizes and penalties as one vectorised program, judged on rows that are not the test's.

    [data] [model] [method] [run]        as in a configuration
    [search]                             lists: penalty = [1, 10], server_lr = [0.3, 1.0]

Every point of the grid runs with every seed, all at once. The score is the global accuracy on `data.validation_share`
(10 % unless set) of the server's rows, and among equals, or for a method without a global model, the personal accuracy;
the test rows are not looked at. What is not a number (the estimator, the number of server steps) changes the program:
search it with another file or --set. So does `fine_tune = 0`, which switches fine-tuning off: such points are a program
of their own.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..engines import compiled, sweep
from ..errors import choice, require
from ..federation import Federation, Plan
from ..schedules import shape_of
from . import config as configuration
from .assemble import Experiment, assemble, with_options
from .config import Config
from .metrics import Scores, evaluated_clients, measure_of, scores_of, spread

STEPS = ("server_lr", "client_lr", "fine_tune")
SWITCHES = ("fine_tune",)  # 0 is not a small number but another program
SEARCHABLE = ("penalty", "proximity", "server_lr", "client_lr", "server_rate", "fine_tune")


class Point(NamedTuple):
    """One point of a grid: the values of the searched keys, and what they reached."""

    options: dict[str, float]
    accuracy: np.ndarray  # [seeds] global, on the validation rows
    personal: np.ndarray  # [seeds] mean over clients


class Search(NamedTuple):
    """What a search found, and how long it took."""

    config: Config
    points: list[Point]  # best first
    seconds: float


def load_search(file: Path, settings: tuple[str, ...] = ()) -> tuple[Config, dict[str, list[float]]]:
    """The checked configuration and grid of a search file."""
    tables = configuration.read_toml(file)
    grid = tables.pop("search", None)
    require(isinstance(grid, dict) and bool(grid), "search", grid, "must be a table of lists", "[search]\npenalty = [1, 10]")
    assert isinstance(grid, dict)
    tables.setdefault("data", {}).setdefault("validation_share", 0.1)
    config = configuration.validate(configuration.with_settings(tables, settings))
    require(config.data.validation_share > 0, "data.validation_share", 0.0, "a search never looks at the test rows", "0.1")
    for key, values in grid.items():
        choice("search", key, SEARCHABLE)
        numbers = isinstance(values, list) and values and all(isinstance(v, int | float) and v >= 0 for v in values)
        require(bool(numbers), f"search.{key}", values, "must be a list of numbers of at least 0")
        for value in values:
            configuration.validate(configuration.with_settings(tables, [*settings, f"method.{key}={value}"]))
    return config, {key: [float(v) for v in values] for key, values in grid.items()}


def run_search(config: Config, grid: dict[str, list[float]], experiment: Experiment | None = None) -> Search:
    """Runs the whole grid; a point that diverges scores NaN and stands last."""
    clock = time.perf_counter()
    require(config.run.rounds > 0, "run.rounds", config.run.rounds, "a search needs at least one round")
    experiment = experiment or assemble(config)
    task, rule = experiment.dataset.task, "has no classes, hence no accuracy to search by"
    require(task == "classification", "data.name", config.data.name, rule, "compare runs of it: `fedtier compare`")
    rule = "a search is one compiled program, and a black box has none"
    require(experiment.compiles, "method", config.method.name, rule, "compare runs of it: `fedtier compare`")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    found: dict[int, Point] = {}
    for off in {_switched_off(point) for point in points}:
        members = [k for k, point in enumerate(points) if _switched_off(point) == off]
        scores = _scores(experiment, [points[k] for k in members], off)
        accuracy = np.where(np.isfinite(scores.global_loss), scores.test.accuracy, np.nan)
        personal = mean_over_clients(scores.personal.accuracy)
        found |= {k: Point(points[k], accuracy[j], personal[j]) for j, k in enumerate(members)}
    ranked = sorted((found[k] for k in range(len(points))), key=_score, reverse=True)
    return Search(config, ranked, time.perf_counter() - clock)


def _scores(experiment: Experiment, points: list[dict[str, float]], off: tuple[str, ...]) -> Scores:
    """Of all `points` after the last round, leading axes [points, seeds]; the options in `off` are 0 in each of them."""
    rounds, chosen = experiment.config.run.rounds, evaluated_clients(experiment)
    steps = experiment.steps[rounds][chosen]

    def final(point: PyTree, federation: Federation, /, *of_seed: PyTree) -> Scores:
        (options, _), (x, plan, key) = point, of_seed
        given = {name: _shape(experiment.config, name, value) for name, value in options.items()}
        traced = with_options(experiment, given | dict.fromkeys(off, 0.0))
        engine = compiled(traced.method, capacity=rounds, devices=())
        state, _ = engine.advance(engine.init(x, federation), federation, plan, key, 0, rounds)
        return scores_of(engine.evaluate(state, federation, key, rounds, steps, measure_of(traced), chosen))

    searched = [name for name in points[0] if name not in off]
    columns = {name: jnp.asarray([point[name] for point in points], jnp.float32) for name in searched}
    numbered = (columns, jnp.arange(len(points)))  # a grid whose options are all switched off still has a row
    return sweep(final, numbered, experiment.federation, experiment.x, _on_device(experiment.plan), experiment.key)


def mean_over_clients(accuracies: np.ndarray) -> np.ndarray:
    """[points, seeds] of [points, seeds, clients], over the clients that have one; NaN where none has."""
    means = [[spread(seed)["mean"] for seed in point] for point in accuracies]
    return np.asarray([[np.nan if mean is None else mean for mean in point] for point in means])


def _switched_off(point: dict[str, float]) -> tuple[str, ...]:
    return tuple(name for name in SWITCHES if point.get(name) == 0)


def _score(point: Point) -> tuple[float, float]:
    """(global, personal), means over the seeds; -1 where there is none."""
    means = (float(scores.mean()) for scores in (point.accuracy, point.personal))
    first, second = (-1.0 if np.isnan(mean) else mean for mean in means)
    return first, second


def _shape(config: Config, name: str, value: Any) -> Any:
    """A step size is searched by its scale; its shape is that of the configuration."""
    return shape_of(name, config.method.options[name])(value) if name in STEPS else value


def _on_device(plan: Plan) -> Any:
    return Plan(*(jnp.asarray(table) for table in plan))  # pyright: ignore[reportArgumentType]
