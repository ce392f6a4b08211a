"""The picture of a published table beside ours: every cell with both deviations."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ...reports import plots
from .table import Cell


def save(cells: list[Cell], headings: dict[str, str], how: str, stem: Path) -> list[str]:
    """Writes the picture as SVG, PDF and PNG, with `how` it was made above it; the names of the files."""
    figure = picture(cells, headings)
    figure.suptitle(how, fontsize=8)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def picture(cells: list[Cell], headings: dict[str, str]) -> Figure:
    """A panel a column: ours as dots, the published numbers as squares, bars of one deviation."""
    names = list(dict.fromkeys(cell.row for cell in cells))[::-1]
    figure = Figure(figsize=(2.2 * len(headings) + 1.5, 0.8 + 0.24 * len(names)), layout="constrained")
    grid = figure.subplots(1, len(headings), squeeze=False, sharey=True)[0]
    for axes, (column, heading) in zip(grid, headings.items(), strict=True):
        here = [cell for cell in cells if cell.column == column]
        known = [(cell, cell.published) for cell in here if cell.published is not None]
        axes.errorbar(
            [cell.last.mean() for cell in here], [names.index(cell.row) + 0.12 for cell in here],
            xerr=[cell.last.std() for cell in here], fmt="o", markersize=3, linewidth=1, label="fedtier",
        )  # fmt: skip
        axes.errorbar(
            [theirs.mean for _, theirs in known], [names.index(cell.row) - 0.12 for cell, _ in known],
            xerr=[theirs.deviation for _, theirs in known], fmt="s", markersize=3, linewidth=1, label="published",
        )  # fmt: skip
        axes.set_title(heading)
        axes.set_xlabel("accuracy")
    grid[0].set_yticks(range(len(names)), names, fontsize=7)
    grid[-1].legend(fontsize=6)
    return figure
