"""Accuracy against epsilon: a table of methods by budgets, and a picture."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import Outcome, run_cells
from ...experiments.progress import Progress
from ...reports import layout, tables
from ...storage.files import write_whole
from ..robustness.reproduce import NOTE, grid
from ..study import Order, Product, comparison_for


def make(order: Order, progress: Progress) -> Product:
    """Runs what is missing; with `out`, the table in every format and the picture as SVG, PDF and PNG."""
    with resources.as_file(resources.files(__package__ or "") / f"{order.name}.toml") as file:
        content: dict[str, Any] = configuration.read_toml(file)
    published = content.pop("published", {})
    wanted = comparison_for(order, content)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, any_version=order.any_version)
    outcome = run_cells(wanted, progress, any_version=order.any_version)
    how = how_run(outcome) + (" (quick, not the full result)" if order.quick else "")
    files = [] if order.out is None else _write(order.out, order.name, outcome, published, how)
    shown = [layout.rich_table(part) for part in layout.narrow(_grid(outcome, published))]
    return Product([*shown, _note(outcome), how, *files], tables.as_object(outcome) | {"how": how, "files": files})


def _grid(outcome: Outcome, published: dict[str, dict[str, float]]) -> layout.Grid:
    """A row a method, a column a budget; published numbers as rows of their own."""
    found = grid(outcome, outcome.comparison.metrics[0])
    theirs = [[name, *(f"{row[setting]:.1f}" if setting in row else "" for setting in found.headings[1:])] for name, row in
              published.items()]  # fmt: skip
    return found._replace(rows=[*found.rows, *theirs])


def _note(outcome: Outcome) -> str:
    """What the numbers are."""
    rows = {"global": "the test rows", "global_on_clients": "each client's test rows, mean over clients"}
    return NOTE.replace("the global model", f"the global model on {rows[outcome.comparison.metrics[0]]}")


def how_run(outcome: Outcome) -> str:
    """On what, how long and what is protected, in words."""
    config = next(cell.config for cell in outcome.comparison.cells if cell.config.privacy.kind != "none")
    run, privacy = config.run, config.privacy
    unit = {"clients": "a client", "rows": "a row"}[privacy.kind]
    played = f"{run.rounds} rounds, {100 * run.participation:g} % of clients a round, {run.seeds} seeds"
    return f"{config.data.title}, {played}; epsilon for {unit} at delta = {privacy.delta:g}"


def _write(folder: Path, name: str, outcome: Outcome, published: dict[str, dict[str, float]], how: str) -> list[str]:
    from . import picture  # matplotlib is not needed to run the cells

    table = _grid(outcome, published)
    texts = {
        "md": f"{layout.markdown(table)}\n\n{_note(outcome)}. {how}\n",
        "csv": tables.comma_separated(outcome),
        "json": json.dumps(tables.as_object(outcome) | {"how": how}, indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    lines = picture.lines_of(outcome, published)
    write_whole(folder / f"{name}-picture.json", (json.dumps(lines, indent=1) + "\n").encode())
    written = [*(f"{name}.{ending}" for ending in texts), f"{name}-picture.json"]
    return [*(str(folder / file) for file in written), *picture.save(lines, folder / name)]
