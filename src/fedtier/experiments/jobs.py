"""The cells of a comparison in several processes at once, one cell after another in each.

For small models a GPU is busy a fraction of the time, and a search spends most of its time compiling on one core. The store
is what the processes share: when they are done, the comparison finds its searches and its cells there.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed

from ..compilation import configure_jax
from ..errors import FedtierError, FedtierWarning, whole
from .comparison import Cell, Comparison
from .outcomes import run_cells
from .progress import Progress
from .tuning import check_grids, tune_cells


def run_in_processes(
    comparison: Comparison, jobs: int, progress: Progress, *, tune: bool = False, any_version: bool = False
) -> None:
    """Runs the cells that the store does not have in `jobs` processes; with `tune` each after its search. A cell that fails
    does not stop the others: the first error is raised when all are done, and the finished cells stay."""
    whole("--jobs", jobs)
    if tune:
        check_grids(comparison)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the processes share the memory of a GPU
    failed: dict[str, str] = {}
    progress.cells(len(comparison.cells))
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=configure_jax) as pool:
        running = {pool.submit(_one, comparison, cell, tune, any_version): cell for cell in comparison.cells}
        for done in as_completed(running):
            label = f"{running[done].method} {running[done].setting}".rstrip()
            progress.next_cell(label)
            said, error = done.result()
            progress.say(*said)
            if error:
                failed[label] = error
                progress.say(f"{label}: {error}")
            progress.cell_done(found=False)
    progress.end()
    if failed:
        rule = f"did not end: {next(iter(failed.values()))}"
        raise FedtierError("cells", ", ".join(failed), rule, "the others are in the store")


def _one(comparison: Comparison, cell: Cell, tune: bool, any_version: bool) -> tuple[list[str], str]:
    """In a process of its own: the cell is searched and run. What it warned of, and the error that ended it in words: many
    exceptions do not survive the way between processes."""
    alone = comparison._replace(cells=[cell])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", FedtierWarning)
        error = ""
        try:
            run_cells(tune_cells(alone, Progress()) if tune else alone, Progress(), any_version=any_version)
        except Exception as problem:  # whatever it is, it is told, and the other cells go on
            error = str(problem) if isinstance(problem, FedtierError) else f"{type(problem).__name__}: {problem}"
    return [str(one.message) for one in said if issubclass(one.category, FedtierWarning)], error
