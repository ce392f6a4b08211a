"""What each aggregation does about attackers: a table of methods by attacks, and a picture of what each attack takes away."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import Outcome, run_cells, score
from ...experiments.progress import Progress
from ...reports import layout, tables
from ...reports.layout import Grid
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for

NOTE = "test accuracy of the global model in per cent: mean ± half-width of the 95 % interval over seeds"


def make(order: Order, progress: Progress) -> Product:
    """Runs what is missing; with `out`, the table in every format and the picture as SVG, PDF and PNG."""
    with resources.as_file(resources.files(__package__ or "") / f"{order.name}.toml") as file:
        content: dict[str, Any] = configuration.read_toml(file)
    wanted = comparison_for(order, content)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, any_version=order.any_version)
    outcome = run_cells(wanted, progress, any_version=order.any_version)
    how = how_run(outcome) + (" (quick, not the full result)" if order.quick else "")
    files = [] if order.out is None else _write(order.out, order.name, outcome, how)
    shown = [layout.rich_table(part) for part in layout.narrow(grid(outcome))]
    return Product([*shown, NOTE, how, *files], tables.as_object(outcome) | {"how": how, "files": files})


def grid(outcome: Outcome, metric: str = "global") -> Grid:
    """A row a method, a column a setting."""
    methods = list(dict.fromkeys(method for method, _ in outcome.finals))
    settings = list(dict.fromkeys(setting for _, setting in outcome.finals))
    rows = [[method, *(_shown(outcome, method, setting, metric) for setting in settings)] for method in methods]
    return Grid(["method", *settings], rows, left=1)


def how_run(outcome: Outcome) -> str:
    """On what and how long, in words."""
    config = outcome.comparison.cells[0].config
    run, data = config.run, config.data
    share = next((cell.config.attack.share for cell in outcome.comparison.cells if cell.config.attack.kind != "none"), 0.0)
    return (
        f"{data.title}, {data.clients} clients, Dirichlet({data.alpha:g}), {100 * share:g} % attack, {run.rounds} rounds, "
        f"{run.seeds} seeds"
    )


def _shown(outcome: Outcome, method: str, setting: str, metric: str) -> str:
    """The cell's accuracy; how many seeds it is of where some diverged."""
    rows = outcome.finals.get((method, setting))
    if rows is None:
        return ""
    if not rows:
        return "diverged"
    asked = next(cell.config.run.seeds for cell in outcome.comparison.cells if (cell.method, cell.setting) == (method, setting))
    found = score(outcome, method, setting, metric)
    number = f"{found.mean:.1f}" + ("" if math.isnan(found.half) else f" ± {found.half:.1f}")
    return number if len(rows) == asked else f"{number} ({len(rows)} of {asked} seeds)"


def _write(folder: Path, name: str, outcome: Outcome, how: str) -> list[str]:
    from . import picture  # matplotlib is not needed to run the cells

    table = grid(outcome)
    texts = {
        "md": f"{layout.markdown(table)}\n\n{NOTE}. {how}\n",
        "tex": f"% {NOTE.replace('±', '+-')}. {how}\n{layout.latex(table)}\n",
        "csv": tables.comma_separated(outcome),
        "json": json.dumps(tables.as_object(outcome) | {"how": how}, indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    return [*(str(folder / f"{name}.{ending}") for ending in texts), *picture.save(outcome, folder / name)]
