"""A table that others published, from its TOML: the cells that are missing are run, the others found in the store.

    [quick]       only = [...], set = [...]: what --quick changes
    [table]       columns: the clients, "mean" of them, "pooled", with headings; personal: rows of personal models, and whose
    [published]   row = { column = [mean, deviation] }, over five seeds
    [explained]   row = "why it differs, as an experiment has shown"

Everything else is a comparison, as in `experiments.comparison`.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import run_cells
from ...experiments.progress import Progress
from ...reports import layout
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for
from . import table
from .table import Cell

OURS = ("quick", "table", "published", "explained")  # what is no table of a comparison
SEEDS = 5  # of the published numbers


def make(order: Order, progress: Progress) -> Product:
    """The table for people and for machines; with `out`, also as markdown, CSV, JSON and a picture."""
    content = load_tables(order.name)
    about, headings = content["table"], content["table"]["columns"]
    asked = {key: value for key, value in content.items() if key not in OURS or key == "quick"}
    wanted = comparison_for(order, asked)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, any_version=order.any_version)
    outcome = run_cells(wanted, progress, any_version=order.any_version)
    cells = table.cells_of(outcome, headings, about["personal"], content["published"])
    cells = [cell._replace(judged=not order.changed) for cell in cells]
    said = [
        table.how(order, [len(cell.last) for cell in cells]),
        table.RULE,
        *table.sentences(cells, headings, SEEDS, content["explained"]),
    ]
    said += [about["note"]] if not (order.changed or order.only) else []
    files = [] if order.out is None else _write(order.out, order.name, cells, headings, said)
    grids = [
        table.grid(cells, headings, "last round (published)", lambda cell: table.beside(cell, SEEDS, "\n")),
        table.grid(cells, headings, "best round", lambda cell: table.number(cell.best)),
    ]
    parts = [layout.rich_table(part) for grid in grids for part in layout.narrow(grid)]
    told = {"cells": [table.as_object(cell, SEEDS) for cell in cells], "said": said, "files": files}
    return Product([*parts, table.MARKS, *said, *files], told)


def load_tables(name: str) -> dict[str, Any]:
    """The tables of a file of this folder."""
    with resources.as_file(resources.files(__package__ or "") / f"{name}.toml") as file:
        return configuration.read_toml(file)


def _write(folder: Path, name: str, cells: list[Cell], headings: dict[str, str], said: list[str]) -> list[str]:
    """The table in every format and the picture; the names of the files."""
    from . import picture  # matplotlib is not needed to run the cells

    last = table.grid(cells, headings, "Last round (published)", lambda cell: table.beside(cell, SEEDS))
    best = table.grid(cells, headings, "Best round", lambda cell: table.number(cell.best))
    words = [table.MARKS, *(f"- {line}" for line in said[1:])]
    objects = [table.as_object(cell, SEEDS) for cell in cells]
    texts = {
        "md": "\n\n".join([f"# {name}", said[0], layout.markdown(last), layout.markdown(best), "\n".join(words)]) + "\n",
        "csv": table.comma_separated(cells, SEEDS),
        "json": json.dumps({"cells": objects, "said": said}, indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    return [*(str(folder / f"{name}.{ending}") for ending in texts), *picture.save(cells, headings, said[0], folder / name)]
