"""All methods beside each other: the tables of a comparison with one entry for every row of the registry.

A method that cannot run on the file's model or data is left out, and the product says why.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from ...errors import FedtierError
from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import Outcome, run_cells
from ...experiments.progress import Progress
from ...experiments.tuning import tune_cells
from ...methods.registry import METHODS
from ...reports import tables
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for


def make(order: Order, progress: Progress) -> Product:
    """Searches and runs what is missing; with `out`, the table in every format and the picture as SVG, PDF and PNG."""
    content, left = comparison_tables(order.name)
    wanted = comparison_for(order, content)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, tune=True, any_version=order.any_version)
    outcome = run_cells(tune_cells(wanted, progress), progress, any_version=order.any_version)
    words = [f"{METHODS[name].title} is left out: {why}" for name, why in left.items()]
    if order.quick:
        words.append("quick, not the full result")
    files = [] if order.out is None else _write(order.out, order.name, outcome, words)
    content = tables.as_object(outcome) | {"left_out": left, "files": files}
    return Product([*tables.rich_table(outcome), *words, *files], content)


def _write(folder: Path, name: str, outcome: Outcome, words: list[str]) -> list[str]:
    """The table in every format and the picture; the names of the files."""
    from . import picture  # matplotlib is not needed to run the cells

    texts = {
        "md": tables.markdown(outcome) + "".join(f"- {line}\n" for line in words),
        "tex": tables.latex(outcome),
        "csv": tables.comma_separated(outcome),
        "json": json.dumps(tables.as_object(outcome), indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    drawn = picture.save(outcome, folder / name)
    return [*(str(folder / f"{name}.{ending}") for ending in texts), *drawn]


def comparison_tables(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(the comparison with an entry for each method that can run, why each of the others cannot)."""
    with resources.as_file(resources.files(__package__ or "") / f"{name}.toml") as file:
        content = configuration.read_toml(file)
    entries, left = [], {}
    shared = {table: content[table] for table in ("data", "model", "run")}
    for method, row in METHODS.items():
        try:
            configuration.validate(shared | {"method": {"name": method}})
        except FedtierError as error:
            left[method] = str(error)
        else:
            entries.append({"label": row.title, "name": method})
    return content | {"methods": entries}, left
