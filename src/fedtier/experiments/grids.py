"""What a search may vary: a table of lists, one for each key of [method] that is a number.

Of a step size a number keeps the shape that the method has, and a text such as "inverse(0.1)" brings its own: a list may have
both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from ..errors import FedtierError, choice
from ..schedules import as_schedule, rescaled, size_of
from ..storage.json_value import Json

STEPS = ("server_lr", "client_lr", "fine_tune")
DECAYS = ("weight_decay", "server_weight_decay")
SEARCHABLE = ("penalty", "proximity", *STEPS[:2], "server_rate", *STEPS[2:], *DECAYS)

By = Literal["global", "personal"]  # the models that a search chooses by; the others decide among equals
BY = get_args(By)

Value = float | str
Grid = Mapping[str, Sequence[Value]]


def checked_grid(name: str, given: Json) -> dict[str, list[Value]]:
    """The table of lists called `name`, its keys and values checked."""
    if not isinstance(given, dict):
        raise FedtierError(name, given, "must be a table of lists", "penalty = [1, 10]")
    grid: dict[str, list[Value]] = {}
    for key, values in given.items():
        choice(name, key, SEARCHABLE)
        steps = key in STEPS
        of, or_steps = "numbers of at least 0", ', or steps such as "inverse(0.1)"' if steps else ""
        if not isinstance(values, list) or not values:
            raise FedtierError(f"{name}.{key}", values, f"must be a list of {of}{or_steps}", f"{key} = [0.1, 0.3]")
        rule = f"holds what is no value of a search: {of}{or_steps} are"
        grid[key] = [_checked(f"{name}.{key}", value, steps, rule) for value in values]
    return grid


def _checked(name: str, value: Json, steps: bool, rule: str) -> Value:
    if isinstance(value, str) and steps:
        as_schedule(name, value)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise FedtierError(name, value, rule)
    return float(value)


def checked_by(name: str, given: object) -> By:
    """The models that a search is to choose by, given under `name`."""
    choice(name, given, BY)
    return "personal" if given == "personal" else "global"


def written(given: Mapping[str, Any], key: str, value: Value) -> Any:
    """How a configuration whose method has the options `given` says this value of a grid."""
    return rescaled(given[key], value) if key in STEPS and value and not isinstance(value, str) else value


def shape(value: Value) -> str:
    """What values of one list have in common where their number alone differs; "" of a number."""
    return str(rescaled(value, 1.0)) if isinstance(value, str) else ""


def points_of(grid: Grid) -> int:
    """How many points a grid has; 0 where nothing is searched."""
    return math.prod(len(values) for values in grid.values()) if grid else 0


def at_an_end(grid: Grid, point: dict[str, Value]) -> list[str]:
    """The keys of more than two values, of the chosen one's shape, whose chosen value is the smallest or the largest: the best
    may lie beyond."""
    alike = {key: [size_of(v) for v in values if shape(v) == shape(point[key])] for key, values in grid.items()}
    return [key for key, sizes in alike.items() if len(sizes) > 2 and size_of(point[key]) in (min(sizes), max(sizes))]
