"""The pictures of tables of runs: every cell beside the published number, or accuracy against what a client has sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...experiments.outcomes import Outcome
from ...experiments.run_folder import RunFolder
from ...reports import plots
from . import sheets
from .claims import Claims


def save(outcome: Outcome, content: dict[str, Any], known: Claims, how: str, stem: Path) -> list[str]:
    """Writes the picture as SVG, PDF and PNG, with `how` it was made above it; the names of the files."""
    by_round = content["table"].get("columns") == "rounds"
    figure = against_bytes(outcome, content, known) if by_round else dots(outcome, content, known)
    figure.suptitle(how, fontsize=8)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def dots(outcome: Outcome, content: dict[str, Any], known: Claims) -> Figure:
    """A panel a column in which others published something: ours as dots with a deviation, theirs as squares."""
    theirs = {column for _, column in known}
    entries = [entry for entry in sheets.entries_of(outcome, content, known) if entry.column in theirs]
    columns, names = (list(dict.fromkeys(getattr(entry, key) for entry in entries)) for key in ("column", "row"))
    names = names[::-1]
    wide = min(6, max(1, len(columns)))
    deep = -(-len(columns) // wide) or 1
    figure = Figure(figsize=(2.1 * wide + 1.5, (0.9 + 0.2 * len(names)) * deep), layout="constrained")
    grid = figure.subplots(deep, wide, squeeze=False, sharey=True)
    for axes, column in zip(grid.flat, columns, strict=False):
        for entry in (entry for entry in entries if entry.column == column):
            place = names.index(entry.row)
            axes.errorbar([entry.shown.mean()], [place + 0.12], xerr=[entry.shown.std()], fmt="o", color="C0", markersize=3)
            claims = known.get((entry.row, column), [])
            axes.plot([claim.mean for claim in claims], [place - 0.12] * len(claims), "s", color="C1", markersize=3)
        axes.set_title(column, fontsize=8)
    for axes in grid.flat[len(columns) :]:
        axes.set_visible(False)
    grid[0][0].set_yticks(range(len(names)), names)
    for first in grid[:, 0]:
        first.tick_params(axis="y", labelsize=7)
    figure.supxlabel("accuracy in per cent; dots: fedtier, squares: published", fontsize=8)
    return figure


@mpl.rc_context(plots.STYLE)
def against_bytes(outcome: Outcome, content: dict[str, Any], known: Claims) -> Figure:
    """Accuracy against the bytes that one reply after another takes: a line a method, published numbers as squares."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for place, cell in enumerate(outcome.comparison.cells):
        rows = RunFolder(cell.folder).rows() if outcome.finals[cell.method, cell.setting] else []
        series = sheets.by_seed(rows, sheets.READINGS[content["table"]["read"]])
        if not series:
            continue
        first = rows[0]["seed"]
        points = [(row["round"], row["bytes_up"]) for row in rows if row["seed"] == first and row["round"] > 0]
        shortest = min(map(len, series))
        rounds, sent = np.asarray(points[:shortest]).T
        each = sent / cell.config.data.clients  # of a client in the mean
        mean = 100 * np.asarray([one[:shortest] for one in series]).mean(axis=0)
        axes.plot(each, mean, color=f"C{place}", label=f"{cell.method} {cell.setting}".strip(), linewidth=1)
        _squares(axes, cell.method, known, each[-1] / rounds[-1], f"C{place}")
    axes.set_xscale("log")
    axes.set_xlabel("bytes that a client has sent, in the mean of all clients")
    axes.set_ylabel("test accuracy in per cent")
    axes.legend(fontsize=6)
    return figure


def _squares(axes: Axes, method: str, known: Claims, a_round: float, colour: str) -> None:
    points = [(int(column) * a_round, claim.mean) for (row, column), of in known.items() if row == method for claim in of]
    if points:
        axes.plot(*zip(*points, strict=True), "s", color=colour, markersize=4)
