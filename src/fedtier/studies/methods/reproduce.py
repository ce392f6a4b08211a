"""All methods beside each other: the tables of a comparison with one entry for every row of the registry.

A method that cannot run on the file's model or data is left out, and the product says why.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...errors import FedtierError
from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import Interval, Outcome, run_cells
from ...experiments.progress import Progress
from ...experiments.tuning import tune_cells
from ...methods.registry import METHODS
from ...reports import plots, tables
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for

SHOWN = {"global": "global model", "personal_by_rows": "personal models, by rows"}


def make(order: Order, progress: Progress) -> Product:
    """Searches and runs what is missing; with `out`, the table in every format and the picture as SVG, PDF and PNG."""
    content, left = _tables(order.name)
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
    texts = {
        "md": tables.markdown(outcome) + "".join(f"- {line}\n" for line in words),
        "tex": tables.latex(outcome),
        "csv": tables.comma_separated(outcome),
        "json": json.dumps(tables.as_object(outcome), indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    figure = _picture(outcome)
    for ending in plots.ENDINGS:
        plots.save(figure, folder / f"{name}.{ending}")
    return [str(folder / f"{name}.{ending}") for ending in (*texts, *plots.ENDINGS)]


def _tables(name: str) -> tuple[dict[str, Any], dict[str, str]]:
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


@mpl.rc_context(plots.STYLE)
def _picture(outcome: Outcome) -> Figure:
    """A panel a setting and measure: the methods by rising accuracy, each with its interval, the baseline as a line."""
    lines = tables.lines(outcome)
    settings = list(dict.fromkeys(line.setting for line in lines))
    most = max(sum(line.setting == setting for line in lines) for setting in settings)
    figure = Figure(figsize=(4.2 * len(settings), 0.6 + 2 * (0.8 + 0.19 * most)), layout="constrained")
    grid = figure.subplots(len(SHOWN), len(settings), squeeze=False)
    for axes_row, (metric, title) in zip(grid, SHOWN.items(), strict=True):
        for axes, setting in zip(axes_row, settings, strict=True):
            here = [line for line in lines if line.setting == setting and np.isfinite(line.scores[metric].mean)]
            here.sort(key=lambda line: line.scores[metric].mean)
            scores: list[Interval] = [line.scores[metric] for line in here]
            base = next((line.scores[metric].mean for line in here if line.method == outcome.comparison.baseline), None)
            if base is not None:
                axes.axvline(base, color="#888888", linewidth=0.8, linestyle="--")
            halves = [0.0 if np.isnan(score.half) else score.half for score in scores]
            axes.errorbar([score.mean for score in scores], range(len(here)), xerr=halves, fmt="o", markersize=3.5, linewidth=1)
            axes.set_yticks(range(len(here)), [line.method for line in here], fontsize=7)
            axes.set_title(f"{setting} {title}".strip())
            axes.set_xlabel(f"accuracy (%); dashed: {outcome.comparison.baseline}")
            median = float(np.median([score.mean for score in scores])) if scores else 0.0
            low = min((score.mean for score in scores if score.mean > median - 25), default=0.0)
            high = max((score.mean for score in scores), default=100.0)
            axes.set_xlim(low - 2, high + 3)  # what lies far below is written at the margin; few seeds make long intervals
            for place, score in enumerate(scores):
                if score.mean < low - 2:
                    axes.annotate(f"← {score.mean:.0f}", (low - 1.8, place), fontsize=6, va="center")
    return figure
