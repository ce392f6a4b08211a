"""Searches: a grid of step sizes and penalties as one vectorised program, judged on rows that are not the test's.

    [data] [model] [method] [run]        as in a configuration
    [search]                             lists: penalty = [1, 10], server_lr = [0.3, 1.0]

Every point of the grid runs with every seed, all at once. The score is the global accuracy on `data.validation_share`
(10 % unless set) of the server's rows; the test rows are not looked at. What is not a number (the estimator, the number
of server steps) changes the program: search it with another file or --set.
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
from ..errors import FedtierError, choice, require
from ..federation import Federation, Plan
from ..schedules import shape_of
from . import config as configuration
from .assemble import Experiment, assemble, with_options
from .config import Config
from .metrics import Scores, evaluated_clients, measure_of, scores_of, spread

STEPS = ("server_lr", "client_lr", "fine_tune")
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
        configuration.validate(configuration.with_settings(tables, [*settings, f"method.{key}={values[0]}"]))
    return config, {key: [float(v) for v in values] for key, values in grid.items()}


def run_search(config: Config, grid: dict[str, list[float]], experiment: Experiment | None = None) -> Search:
    """Runs the whole grid; a point that diverges scores NaN and stands last."""
    clock = time.perf_counter()
    experiment = experiment or assemble(config)
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    rounds, chosen = config.run.rounds, evaluated_clients(experiment)
    if not rounds:
        raise FedtierError("run.rounds", rounds, "a search needs at least one round")
    steps = experiment.steps[rounds][chosen]

    def final(options: PyTree, federation: Federation, /, *of_seed: PyTree) -> Scores:
        x, plan, key = of_seed
        traced = with_options(experiment, {name: _shape(config, name, value) for name, value in options.items()})
        engine = compiled(traced.method, capacity=rounds, devices=())
        state, _ = engine.advance(engine.init(x, federation), federation, plan, key, 0, rounds)
        return scores_of(engine.evaluate(state, federation, key, rounds, steps, measure_of(traced), chosen))

    columns = {name: jnp.asarray([point[name] for point in points], jnp.float32) for name in grid}
    scores = sweep(final, columns, experiment.federation, experiment.x, _on_device(experiment.plan), experiment.key)
    personal = np.asarray([[spread(seed)["mean"] or np.nan for seed in point] for point in scores.personal.accuracy])
    accuracy = np.where(np.isfinite(scores.global_loss), scores.test.accuracy, np.nan)
    found = [Point(point, accuracy[k], personal[k]) for k, point in enumerate(points)]
    ranked = sorted(found, key=lambda point: -np.nan_to_num(point.accuracy.mean(), nan=-1.0))
    return Search(config, ranked, time.perf_counter() - clock)


def _shape(config: Config, name: str, value: Any) -> Any:
    """A step size is searched by its scale; its shape is that of the configuration."""
    return shape_of(name, config.method.options[name])(value) if name in STEPS else value


def _on_device(plan: Plan) -> Any:
    return Plan(*(jnp.asarray(table) for table in plan))  # pyright: ignore[reportArgumentType]
