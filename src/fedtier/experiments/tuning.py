"""The same search for every method of a comparison, on validation rows of its own runs, before the comparison is run.

Every method has a grid of the same number of points: the `grid` of its row in the registry, or a table `search` of its own in
the comparison's file; one with an empty table stays as it is, and is labelled so. A grid runs with the first seeds of the
cell: the split of a seed is the same in the search and in the run, its test rows and its clients' held-back rows are looked
at by neither the models nor the choice. The best point has the best mean of the global model on validation rows of the
server, then of the personal models on validation rows of the clients, or the other way round (`search_by`): the highest
accuracy, or the lowest rmse where the label is a number. Where there are several numbers of rounds to choose from, each point
is tried with each of them, by a run of its own: a model that has seen its rows too often loses again, and how soon depends on
method and settings.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import nearest, require
from ..methods.flat import KEYS_OF_PARTS
from ..methods.registry import METHODS
from ..storage.files import make_folder, write_whole
from .comparison import Cell, Comparison, SearchRounds, cell_name
from .data import load_raw
from .grids import BY, By, Grid, Value, at_an_end, points_of, written
from .origin import code_of
from .progress import Progress
from .search import FEW_ROWS, run_search
from .tables import Config

SEEDS = 2  # of the cell, from the first on
SHARE = 0.1  # of the server's and of each client's training rows
ROUNDS = "run.rounds"


def tune_cells(comparison: Comparison, progress: Progress) -> Comparison:
    """The comparison with the best point of its grid in every cell, and how it was found."""
    check_grids(comparison)
    digest = _digests()
    rounds = comparison.search_rounds
    return comparison._replace(
        cells=[_tuned(cell, rounds, comparison.search_by, digest, progress) for cell in comparison.cells]
    )


def _digests() -> Callable[[Config], str]:
    """digest(config) of the data that a configuration names, as they are now; read once for all cells that share them."""
    known: dict[str, str] = {}

    def digest(config: Config) -> str:
        key = config.data.model_dump_json()
        if key not in known:
            known[key] = load_raw(config).digest()
        return known[key]

    return digest


def grid_of(cell: Cell) -> Grid | None:
    """What is searched for a cell; None where its method has no grid, {} where its file says so."""
    if cell.grid is not None:
        return cell.grid
    row = METHODS.get(cell.config.method.name)
    return None if row is None or not row.grid else dict(row.grid)


def check_grids(comparison: Comparison) -> None:
    """Refuses searches of different sizes, and keys that a method does not have."""
    sizes = {cell.method: points_of(grid) for cell in comparison.cells if (grid := grid_of(cell))}
    rule = "every method must be searched over the same number of points"
    require(len(set(sizes.values())) <= 1, "search", sizes, rule, "give the tables `search` of the file one size")
    for cell in comparison.cells:
        known = {*cell.config.method.options, "penalty", "proximity"}
        for key in grid_of(cell) or ():
            parts = [part for part, keys in KEYS_OF_PARTS.items() if key in keys and part in known]
            rule = f"cannot be searched beside {parts[0]} = ..." if parts else f"is no key of {cell.config.method.name}"
            hint = f"give keys in its place: {', '.join(KEYS_OF_PARTS[parts[0]])}" if parts else nearest(key, known)
            require(key in known, f"search of {cell.method}", key, rule, hint)


def _tuned(cell: Cell, rounds: SearchRounds, by: By, digest: Callable[[Config], str], progress: Progress) -> Cell:
    grid = grid_of(cell)
    if not grid:
        return cell._replace(tuned="not tuned: the method has no grid" if grid is None else "not tuned: as its file says")
    several = sorted({min(cell.config.run.rounds, one) for one in rounds}) if isinstance(rounds, tuple) else []
    searched = [_searched(cell.config, one) for one in several or [rounds if isinstance(rounds, int) else None]]
    tried = [_points(cell, config, grid, by, digest(cell.config), progress) for config in searched]
    lengths = f" x {len(several)} numbers of rounds" if several else ""
    length, best = max(enumerate(found[0] for found in tried), key=lambda one: one[1].score)  # the fewest rounds of equals
    given = cell.config.method.options
    values: dict[str, Any] = {key: written(given, key, value) for key, value in best.options.items()}
    config = cell.config.model_copy(update={"method": cell.config.method.model_copy(update=values)})
    ends, shorter = at_an_end(grid, best.options), ""
    if several:
        values[ROUNDS] = several[length]
        ends += at_an_end({ROUNDS: [*several]}, {ROUNDS: several[length]})
        config = config.model_copy(update={"run": config.run.model_copy(update={"rounds": several[length]})})
    elif searched[0].run.rounds < config.run.rounds:
        shorter = f", {searched[0].run.rounds} rounds"
    rows = "validation rows" if by == "global" else "clients' validation rows"
    found = f"best of {len(tried[0])} points{lengths} on {rows}, {SEEDS} seeds{shorter}: {_told(values, ends, best)}"
    folder = cell.folder.parent / cell_name(config)
    return cell._replace(config=config, folder=folder, tuned=found, own_rounds=bool(several))


def _told(values: dict[str, Any], ends: list[str], best: Tried) -> str:
    words = ", ".join(f"{key} = {value}" for key, value in values.items())
    end = f"; {' and '.join(ends)} at an end of the grid" if ends else ""
    few = f"; only {best.judged} validation rows judged, small differences mean nothing" if best.judged < FEW_ROWS else ""
    return words + end + few


class Tried(NamedTuple):
    options: dict[str, Value]
    score: tuple[float, float]  # what is searched by, then the other of global and personal; more is better
    judged: int  # validation rows of a seed that judge what is searched by


def _points(cell: Cell, config: Config, grid: Grid, by: By, data: str, progress: Progress) -> list[Tried]:
    """Best first; found again in the store if the same search was made before, by the same code on the same data, of which
    `data` is the digest."""
    content = json.dumps([config.digest(), grid, data, code_of(config)])
    file = cell.folder.parent / "tuning" / f"{cell_name(config)}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"
    if not file.exists():
        progress.say(f"tuning {cell.method} {cell.setting}".rstrip())
        _search(config, grid, file)
    found = json.loads(file.read_bytes())
    sign = 1.0 if found["measure"] == "accuracy" else -1.0

    def score(point: dict[str, Any], of: str) -> float:
        return -math.inf if point[of] is None else sign * point[of]

    judged, (first, second) = found["judged"][by], BY if by == BY[0] else BY[::-1]
    tried = [Tried(point["options"], (score(point, first), score(point, second)), judged) for point in found["points"]]
    return sorted(tried, key=lambda one: one.score, reverse=True)


def _search(config: Config, grid: Grid, file: Path) -> None:
    found = run_search(config, grid)

    def mean(of_seeds: np.ndarray) -> float | None:
        return float(of_seeds.mean()) if np.isfinite(of_seeds.mean()) else None

    points = [{"options": p.options, "global": mean(p.overall), "personal": mean(p.personal)} for p in found.points]
    make_folder(file.parent)
    content = {"measure": found.measure, "judged": found.judged, "points": points}
    write_whole(file, json.dumps(content, indent=1, allow_nan=False).encode())


def _searched(config: Config, most: int | None) -> Config:
    """The run of a search: the first seeds, rows held back to choose by, and `most` rounds where they are given."""
    data = config.data.model_copy(update={"validation_share": config.data.validation_share or SHARE})
    rounds = min(config.run.rounds, most or config.run.rounds)
    update = {"seeds": min(SEEDS, config.run.seeds), "rounds": rounds, "eval_every": max(1, rounds)}
    run = config.run.model_copy(update=update)
    return config.model_copy(update={"data": data, "run": run})
