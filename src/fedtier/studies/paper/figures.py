"""The pictures of figure 2 (the loss by local steps) and figure 3 (the implicit function of the appendix)."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...reports.load_runs import Curve, band
from ...reports.plots import INK, STYLE
from ...reports.style import MEASURES, Measure
from .implicit import Picture
from .local_steps import Key, data_set

LOSS = MEASURES[0]
SHADES = ("#9ECAE1", "#4292C6", "#08306B", "#000000")  # a parameter that grows: from light to dark


@mpl.rc_context(STYLE)
def convergence(curves: dict[Key, list[Curve]]) -> Figure:
    """The test loss for each method, tau and mu: a row per data set and method, a column per setting."""
    found = [curve for several in curves.values() for curve in several]
    rows = list(
        dict.fromkeys((data_set(curve.setting), method) for (method, _, _), several in curves.items() for curve in several)
    )
    columns = list(dict.fromkeys(_heterogeneity_of(curve) for curve in found))
    figure = Figure(figsize=(3.1 * len(columns) + 0.4, 2.3 * len(rows) + 0.9), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharex="col", sharey="row")
    shades = {tau: SHADES[k] for k, tau in enumerate(sorted({tau for _, tau, _ in curves}))}
    for (method, tau, larger), several in curves.items():
        label = f"τ = {tau:g}, larger μ" if larger else f"τ = {tau:g}"
        colour, stroke = ("#D55E00", "--" if tau == max(shades) else ":") if larger else (shades[tau], "-")
        for curve in several:
            axes = grid[rows.index((data_set(curve.setting), method)), columns.index(_heterogeneity_of(curve))]
            _line(axes, curve, LOSS, label, colour, stroke)
    for line, (data, method) in zip(grid, rows, strict=True):
        line[0].set_ylabel(f"{data}\n{method}\ntest loss")
        drawn = [curve.get_ydata() for axes in line for curve in axes.get_lines()]
        later = [y for ys in drawn for y in ys[1:]]  # round 0 is the same for all, and far above
        line[0].set_ylim(0.98 * min(later), 1.02 * max(later))
        if max(later) > max(ys[0] for ys in drawn):  # what goes beyond round 0 diverges, and would flatten the others
            line[0].set_yscale("log")
    for axes, setting in zip(grid[0], columns, strict=True):
        axes.set_title(setting)
    for axes in grid[-1]:
        axes.set_xlabel("rounds")
    figure.align_ylabels()
    _legend(figure, grid[-1], "outside lower center", len(shades) + 2)
    return figure


def _heterogeneity_of(curve: Curve) -> str:
    return curve.setting.partition(" ")[2]


def _line(axes: Any, curve: Curve, measure: Measure, label: str, colour: str, stroke: str) -> None:
    line = band(curve, "round", measure.path, measure.scale)
    if line is None:
        return
    axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(line.x, line.mean, color=colour, linestyle=stroke, linewidth=1.5, label=label)


def _legend(figure: Figure, row: Any, place: Any, columns: int) -> None:
    handles = {line.get_label(): line for axes in row for line in axes.get_lines()}
    # matplotlib fills a legend column by column; a row is easier to read
    order = [name for k in range(columns) for name in list(handles)[k::columns]]
    figure.legend([handles[name] for name in order], order, loc=place, ncols=columns)


@mpl.rc_context(STYLE)
def implicit_figure(found: Picture) -> Figure:
    """f in two dimensions; in one f and its smoothed versions, slopes and estimates, the paths of ZO-HFL."""
    figure = Figure(figsize=(9.4, 6.2), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    upper, lower = parts
    _surface(upper, found)
    values, slopes, paths = lower.subplots(1, 3)
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
    values.set(title="n = 1: implicit function, smoothed", xlabel="x", ylabel="f")
    slopes.set(title="Slope, and what ZO-HFL estimates", xlabel="x")
    paths.set(title=f"ZO-HFL from x = {found.smoothed[0].path[0]:g}", xlabel="rounds", ylabel="x")
    for axes in (values, slopes, paths):
        axes.legend(fontsize=8)
    return figure


def _surface(figure: Any, found: Picture) -> None:
    """As the paper draws it, and from above: kinks where a coordinate is 0, the minimum at (-1, -1), flat beyond."""
    bowl = figure.add_subplot(1, 2, 1, projection="3d")
    first, second = np.meshgrid(found.plane, found.plane, indexing="ij")
    bowl.plot_surface(first, second, found.surface, cmap="viridis", linewidth=0, antialiased=True)
    bowl.set(title="n = 2: f(x)", xlabel="x₁", ylabel="x₂")
    bowl.view_init(elev=28, azim=-125)
    above = figure.add_subplot(1, 2, 2)
    above.contour(found.plane, found.plane, found.surface.T, levels=12, cmap="viridis", linewidths=1.2)
    for line in (above.axhline, above.axvline):
        line(0.0, color="#666666", linewidth=0.8, linestyle=":")
    above.plot([-1], [-1], "o", color=INK, markersize=4)
    above.annotate("minimum", (-1, -1), xytext=(5, 5), textcoords="offset points", fontsize=8, color="#666666")
    above.set(title="n = 2: levels of f, kinks on the dotted lines", xlabel="x₁", ylabel="x₂", aspect="equal")
