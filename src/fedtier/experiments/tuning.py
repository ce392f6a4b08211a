"""The same search for every method of a comparison, on validation rows of its own runs, before the comparison is run.

Every method has a grid of the same number of points (`methods.flat.GRIDS`). A grid runs with the first seeds of the cell: the
split of a seed is the same in the search and in the run, its test rows and its clients' held-back rows are looked at by
neither the models nor the choice. The best point has the highest mean accuracy of the global model on validation rows of the
server, then of the personal models on validation rows of the clients.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from ..methods.flat import GRIDS
from ..schedules import rescaled
from ..storage.files import make_folder, write_whole
from .comparison import Cell, Comparison, cell_name
from .config import Config
from .progress import Progress
from .run_folder import code_digest
from .search import STEPS, run_search

SEEDS = 2  # of the cell, from the first on
SHARE = 0.1  # of the server's and of each client's training rows


def tune_cells(comparison: Comparison, progress: Progress) -> Comparison:
    """The comparison with the best point of its grid in every cell, and how it was found."""
    return comparison._replace(cells=[_tuned(cell, progress) for cell in comparison.cells])


def _tuned(cell: Cell, progress: Progress) -> Cell:
    grid = GRIDS.get(cell.config.method.name)
    if grid is None:
        return cell._replace(tuned="not tuned: the method has no grid")
    best, points = _best(cell, grid, progress)
    given = cell.config.method.options
    values = {key: rescaled(given[key], value) if key in STEPS else value for key, value in best.items()}
    config = cell.config.model_copy(update={"method": cell.config.method.model_copy(update=values)})
    words = ", ".join(f"{key} = {value}" for key, value in values.items())
    found = f"best of {points} points on validation rows, {SEEDS} seeds: {words}"
    return cell._replace(config=config, folder=cell.folder.parent / cell_name(config), tuned=found)


def _best(cell: Cell, grid: dict[str, list[float]], progress: Progress) -> tuple[dict[str, float], int]:
    """(the best point, how many there were); found again in the store if the same search was made before."""
    config = _searched(cell.config)
    content = json.dumps([config.digest(), grid, code_digest()])
    file = cell.folder.parent / "tuning" / f"{cell_name(config)}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"
    if not file.exists():
        progress.say(f"tuning {cell.method} {cell.setting}".rstrip())
        _search(config, grid, file)
    found = json.loads(file.read_bytes())
    return found["points"][0]["options"], len(found["points"])


def _search(config: Config, grid: dict[str, list[float]], file: Path) -> None:
    found = run_search(config, grid).points

    def score(of_seeds: np.ndarray) -> float:
        return float(np.nan_to_num(of_seeds.mean(), nan=-1.0))

    ranked = sorted(found, key=lambda p: (-score(p.accuracy), -score(p.personal)))
    points = [{"options": p.options, "accuracy": score(p.accuracy), "personal": score(p.personal)} for p in ranked]
    make_folder(file.parent)
    write_whole(file, json.dumps({"points": points}, indent=1).encode())


def _searched(config: Config) -> Config:
    data = config.data.model_copy(update={"validation_share": config.data.validation_share or SHARE})
    run = config.run.model_copy(update={"seeds": min(SEEDS, config.run.seeds)})
    return config.model_copy(update={"data": data, "run": run})
