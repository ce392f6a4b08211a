"""What a search may vary: a table of lists, one for each key of [method] that is a number."""

from __future__ import annotations

import math

from ..errors import FedtierError, choice, require
from ..storage.json_value import Json

STEPS = ("server_lr", "client_lr", "fine_tune")
SEARCHABLE = ("penalty", "proximity", *STEPS[:2], "server_rate", *STEPS[2:])

Grid = dict[str, list[float]]


def checked_grid(name: str, given: Json) -> Grid:
    """The table of lists called `name`, its keys and numbers checked."""
    if not isinstance(given, dict):
        raise FedtierError(name, given, "must be a table of lists", "penalty = [1, 10]")
    grid: Grid = {}
    for key, values in given.items():
        choice(name, key, SEARCHABLE)
        grid[key] = [float(v) for v in values if isinstance(v, int | float) and v >= 0] if isinstance(values, list) else []
        fits = isinstance(values, list) and values and len(grid[key]) == len(values)
        require(fits, f"{name}.{key}", values, "must be a list of numbers of at least 0")
    return grid


def points_of(grid: Grid) -> int:
    """How many points a grid has; 0 where nothing is searched."""
    return math.prod(len(values) for values in grid.values()) if grid else 0


def at_an_end(grid: Grid, point: dict[str, float]) -> list[str]:
    """The keys of more than two values whose chosen value is the smallest or the largest: the best may lie beyond."""
    return [key for key, values in grid.items() if len(values) > 2 and point[key] in (min(values), max(values))]
