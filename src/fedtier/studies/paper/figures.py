"""The pictures of figure 2 (convergence) and figure 3 (the implicit function of the appendix)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from ...reports.load_runs import Curve, band
from ...reports.plots import INK, STYLE
from ...reports.style import MEASURES, Measure, looks
from .implicit import Picture

LOSS, ACCURACY = MEASURES[0], MEASURES[1]
SHADES = ("#9ECAE1", "#4292C6", "#08306B", "#000000")  # a parameter that grows: from light to dark
STROKES = ("-", "--", ":", "-.")


@mpl.rc_context(STYLE)
def convergence(methods: Sequence[Curve], varied: dict[tuple[str, float], list[Curve]]) -> Figure:
    """A column per setting. Rows: test loss, accuracy, then accuracy for each (method, tau) of `varied`."""
    settings = list(dict.fromkeys(curve.setting for curve in methods))
    figure = Figure(figsize=(3.1 * len(settings) + 0.4, 7.2), layout="constrained")
    grid = figure.subplots(3, len(settings), squeeze=False, sharex="col", sharey="row")
    look = looks(methods)
    for column, setting in zip(grid.T, settings, strict=True):
        column[0].set_title(setting)
        for curve in (c for c in methods if c.setting == setting):
            for axes, measure in zip(column, (LOSS, ACCURACY), strict=False):
                stroke = "--" if curve.name == "fedprox" else "-"  # it lies on FedAvg
                _line(axes, curve, measure, curve.method, look[curve.method].colour, stroke)
        shades = {tau: SHADES[k] for k, tau in enumerate(sorted({tau for _, tau in varied}))}
        strokes = {method: STROKES[k] for k, method in enumerate(dict.fromkeys(method for method, _ in varied))}
        for (method, tau), curves in varied.items():
            for curve in (c for c in curves if c.setting == setting):
                _line(column[2], curve, ACCURACY, f"{method}, τ = {tau:g}", shades[tau], strokes[method])
        column[2].set_xlabel("rounds")
    for axes, words in zip(grid[:, 0], ("test loss", "test accuracy (%)", "test accuracy (%)"), strict=True):
        axes.set_ylabel(words)
    _clip(grid[0], methods)
    grid[2, 0].set_title("ZO-HFL by τ")
    figure.align_ylabels()
    _legend(figure, grid[1], "outside upper center", 5)
    _legend(figure, grid[2], "outside lower center", max(1, len({tau for _, tau in varied})))
    return figure


def _line(axes: Any, curve: Curve, measure: Measure, label: str, colour: str, stroke: str) -> None:
    line = band(curve, "round", measure.path, measure.scale)
    if line is None:
        return
    axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(line.x, line.mean, color=colour, linestyle=stroke, linewidth=1.5, label=label)


def _clip(row: Any, curves: Sequence[Curve]) -> None:
    """Losses of a method that jumps about would flatten all others: the axis ends a little above the loss of round 0."""
    starts = [r["global_loss"] for curve in curves for r in curve.rows if r["round"] == 0 and r["global_loss"] is not None]
    if starts:
        row[0].set_ylim(0.0, 1.15 * max(starts))


def _legend(figure: Figure, row: Any, place: Any, columns: int) -> None:
    handles = {line.get_label(): line for axes in row for line in axes.get_lines()}
    # matplotlib fills a legend column by column; a row is easier to read
    order = [name for k in range(columns) for name in list(handles)[k::columns]]
    figure.legend([handles[name] for name in order], order, loc=place, ncols=columns)


@mpl.rc_context(STYLE)
def implicit_figure(found: Picture) -> Figure:
    """f and its smoothed versions; slopes and estimates; the paths of ZO-HFL."""
    figure = Figure(figsize=(9.4, 3.1), layout="constrained")
    values, slopes, paths = figure.subplots(1, 3)
    values.plot(found.grid, found.f, color=INK, linewidth=1.8, label="f(x, y(x))")
    # f' = x + 1 below 0 and 0 above: two pieces, so that the jump stays a jump
    for piece in (found.grid[found.grid < 0], found.grid[found.grid > 0]):
        slopes.plot(piece, (piece + 1) * (piece < 0), color=INK, linewidth=1.8, label="f′" if piece[0] < 0 else None)
    for colour, one in zip(("#0072B2", "#D55E00", "#009E73", "#CC79A7"), found.smoothed, strict=False):
        label = f"η = {one.eta:g}"
        values.plot(found.grid, one.values, color=colour, linewidth=1.3, label=label)
        slopes.plot(found.grid, one.slope, color=colour, linewidth=1.3, label=label)
        slopes.plot(found.probes, one.estimates, ".", color=colour, markersize=4.5)
        paths.plot(one.path, color=colour, linewidth=1.5, label=label)
    slopes.plot([], [], ".", color="#666666", label="estimates")
    paths.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
    paths.axhline(-1.0, color=INK, linewidth=0.8, linestyle=":")
    last = len(found.smoothed[0].path)
    paths.annotate("kink", (last, 0.0), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8, color="#666666")
    paths.annotate("minimum", (last, -1.0), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8, color="#666666")
    values.set(title="Implicit function, smoothed", xlabel="x", ylabel="f")
    slopes.set(title="Slope, and what ZO-HFL estimates", xlabel="x")
    paths.set(title=f"ZO-HFL from x = {found.smoothed[0].path[0]:g}", xlabel="rounds", ylabel="x")
    for axes in (values, slopes, paths):
        axes.legend(fontsize=8)
    return figure
