"""The picture of the study: accuracy against virtual time, a panel for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ...reports import plots
from ...reports.load_runs import Curve, band, settings
from ...reports.style import PALETTE


def save(curves: Sequence[Curve], target: float, stem: Path) -> list[str]:
    """Writes the picture as SVG, PDF and PNG; the names of the files."""
    figure = picture(curves, target)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def picture(curves: Sequence[Curve], target: float) -> Figure:
    """Mean over the seeds, shaded from the lowest to the highest; the target as a dashed line."""
    panels = settings(curves)
    labels = list(dict.fromkeys(curve.method for curve in curves))
    figure = Figure(figsize=(4.5 * len(panels), 3.4), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (setting, members) in zip(grid, panels.items(), strict=True):
        for curve in members:
            line, colour = band(curve, "virtual_seconds", ("global_accuracy",), 100.0), PALETTE[labels.index(curve.method)]
            if line is not None:
                axes.plot(line.x, line.mean, color=colour, linewidth=1.4, label=curve.method)
                axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axes.axhline(100 * target, color="#888888", linewidth=0.8, linestyle="--")
        axes.set_title(setting)
        axes.set_xlabel("virtual seconds")
    grid[0].set_ylabel("accuracy of the global model (%)")
    grid[0].set_ylim(100 * target - 40, min(100, 100 * target + 8))
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(labels))
    return figure
