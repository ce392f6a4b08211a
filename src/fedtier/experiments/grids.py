"""What a search may vary: a table of lists, one for each key of [method] that is a number."""

from __future__ import annotations

import math
from typing import Any

from ..errors import choice, require

STEPS = ("server_lr", "client_lr", "fine_tune")
SEARCHABLE = ("penalty", "proximity", *STEPS[:2], "server_rate", *STEPS[2:])

Grid = dict[str, list[float]]


def checked_grid(name: str, given: Any) -> Grid:
    """The table of lists called `name`, its keys and numbers checked."""
    require(isinstance(given, dict), name, given, "must be a table of lists", "penalty = [1, 10]")
    for key, values in given.items():
        choice(name, key, SEARCHABLE)
        numbers = isinstance(values, list) and values and all(isinstance(v, int | float) and v >= 0 for v in values)
        require(bool(numbers), f"{name}.{key}", values, "must be a list of numbers of at least 0")
    return {key: [float(v) for v in values] for key, values in given.items()}


def points_of(grid: Grid) -> int:
    """How many points a grid has; 0 where nothing is searched."""
    return math.prod(len(values) for values in grid.values()) if grid else 0


def at_an_end(grid: Grid, point: dict[str, float]) -> list[str]:
    """The keys of more than two values whose chosen value is the smallest or the largest: the best may lie beyond."""
    return [key for key, values in grid.items() if len(values) > 2 and point[key] in (min(values), max(values))]
