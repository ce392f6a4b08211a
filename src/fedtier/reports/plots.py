"""Figures for papers, drawn by matplotlib without a display: SVG, PDF or PNG by the file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ..errors import NOTHING, FedtierError, require
from ..experiments.label_counts import LabelCounts
from .load_runs import Curve, band
from .style import MEASURES, Look, Measure, across_of, looks, unit

BUBBLES_UP_TO = 40  # clients and classes; beyond that a shaded grid is easier to read
ENDINGS = ("svg", "pdf", "png")
MARKERS = "osD^vPX<>"
Line = str | tuple[int, tuple[float, ...]]  # as matplotlib takes it
LINES: dict[str, Line] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 2)), "longdashdot": (0, (8, 2, 1, 2)),
}  # fmt: skip
INK, PALE = "#222222", "#d9d9d9"
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left", "axes.edgecolor": "#888888", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True, "legend.frameon": False,
    "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "fedtier",
}  # fmt: skip


@mpl.rc_context(STYLE)
def save(figure: Figure, path: Path) -> None:
    """Writes the figure; the same figure gives the same bytes."""
    ending = check_ending(path)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[ending]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata=undated, dpi=200, bbox_inches="tight")
    except OSError as error:
        raise FedtierError(str(path), NOTHING, f"cannot be written: {error.strerror}", "choose another folder") from None


def check_ending(path: Path) -> str:
    ending = path.suffix.removeprefix(".").lower()
    require(ending in ENDINGS, "--out", str(path), f"must end in .{', .'.join(ENDINGS)}", "for example partition.svg")
    return ending


@mpl.rc_context(STYLE)
def partition_figure(counts: LabelCounts) -> Figure:
    """Who has how many of which class: a bubble's area is the number of rows; the server stands apart on the right."""
    clients, classes = counts.clients.shape
    if max(clients, classes) > BUBBLES_UP_TO:
        return _grid(counts)
    figure = Figure(figsize=(1.6 + 0.42 * (clients + 2), 1.5 + 0.34 * classes), layout="constrained")
    largest = _largest(counts)
    axes = figure.add_subplot()
    _bubbles(axes, counts, largest, 420.0)
    axes.set_ylabel("class")
    axes.set_title(f"{counts.title}\nlargest bubble: {largest:,} rows")
    return figure


@mpl.rc_context(STYLE)
def partitions_figure(censuses: dict[str, LabelCounts]) -> Figure:
    """Several partitions of the same rows side by side, by title, all bubbles on one scale; at most 40 clients and classes."""
    first = next(iter(censuses.values()))
    clients, classes = first.clients.shape
    figure = Figure(figsize=(len(censuses) * (0.6 + 0.235 * (clients + 2)) + 0.6, 1.2 + 0.24 * classes), layout="constrained")
    largest = max(map(_largest, censuses.values()))
    grid = figure.subplots(1, len(censuses), sharey=True, squeeze=False)[0]
    for axes, (title, counts) in zip(grid, censuses.items(), strict=True):
        _bubbles(axes, counts, largest, 200.0)
        axes.set_title(title)
    grid[0].set_ylabel("class")
    figure.supxlabel(f"area: rows; the largest bubble has {largest:,}", fontsize=8, color="#666666")
    return figure


def _largest(counts: LabelCounts) -> int:
    return int(max(counts.clients.max(), counts.server.max()))


def _bubbles(axes: Any, counts: LabelCounts, largest: int, area: float) -> None:
    clients, classes = counts.clients.shape
    table = np.vstack([counts.clients, counts.server])
    x, y = np.meshgrid(np.append(np.arange(clients), clients + 0.5), np.arange(classes), indexing="ij")
    colours = np.where(np.arange(clients + 1) < clients, "#0072B2", "#4D4D4D")
    areas, some = area * table / max(1, largest), table > 0
    axes.scatter(
        x[some], y[some], s=areas[some], c=np.repeat(colours, classes)[some.ravel()].tolist(), alpha=0.85, linewidths=0
    )
    axes.axvline(clients - 0.25, color=PALE, linewidth=1)
    slanted = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if max(map(len, counts.names)) > 3 else {}
    axes.set_xticks([*range(clients), clients + 0.5], [*counts.names, "server"], **slanted)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(range(classes), [_short(label) for label in counts.labels])
    axes.set_xlim(-0.7, clients + 1.2)
    axes.set_ylim(-0.7, classes - 0.3)
    axes.set_xlabel("client")


def _grid(counts: LabelCounts) -> Figure:
    """The fainter, the fewer rows; the server has a column of its own on the right, at the same scale."""
    clients, classes = counts.clients.shape
    figure = Figure(figsize=(7.0, min(7.0, max(2.4, 1.4 + 0.22 * classes))), layout="constrained")
    axes, side = figure.subplots(1, 2, sharey=True, width_ratios=(20, 1))
    order = np.argsort(-counts.clients.sum(axis=1), kind="stable")
    largest = _largest(counts)
    for place, table in ((axes, counts.clients[order]), (side, counts.server[None])):
        shades = {"aspect": "auto", "cmap": "Blues", "vmin": 0.0, "vmax": np.log10(1 + largest)}
        picture = place.imshow(np.log10(1 + table.T), origin="lower", interpolation="nearest", **shades)
        place.grid(False)
    bar = figure.colorbar(picture, ax=[axes, side], pad=0.01)
    ticks = [n for n in (0, 1, 10, 100, 1000, 10_000, 100_000) if n <= largest]
    bar.set_ticks([np.log10(1 + n) for n in ticks], labels=[f"{n:,}" for n in ticks])
    bar.set_label("rows")
    if classes <= BUBBLES_UP_TO:
        axes.set_yticks(range(classes), [_short(label) for label in counts.labels])
    side.set_xticks([0], ["server"])
    side.tick_params(axis="both", length=0)
    axes.set_xlabel(f"{clients:,} clients, the largest first")
    axes.set_ylabel("class")
    axes.set_title(counts.title)
    return figure


@mpl.rc_context(STYLE)
def curves_figure(curves: Sequence[Curve], measures: Sequence[Measure] = MEASURES) -> Figure:
    """Rows: loss, global and personal accuracy; columns: against rounds, bytes, local steps and, with a clock, virtual time.
    Bands span the seeds."""
    shown = [m for m in measures if any(band(curve, "round", m.path) for curve in curves)]
    choices = across_of(curves)
    figure = Figure(figsize=(3.0 * len(choices), 2.3 * max(1, len(shown)) + 0.5), layout="constrained")
    grid = figure.subplots(max(1, len(shown)), len(choices), squeeze=False, sharey="row")
    look = looks(curves)
    for row, measure in zip(grid, shown, strict=False):
        for axes, across in zip(row, choices, strict=True):
            scale = unit(curves, across)
            for curve in curves:
                _draw(axes, curve, across.key, measure, scale.divide, look[curve.method])
            if scale.log:
                axes.set_xscale("log")
            axes.set_xlabel(scale.axis)
        row[0].set_ylabel(measure.axis)
        row[0].set_title(measure.title)
    handles = {line.get_label(): line for axes in grid[:, 0] for line in axes.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(6, max(1, len(handles))))
    return figure


def _draw(axes: Any, curve: Curve, across: str, measure: Measure, divide: float, look: Look) -> None:
    line = band(curve, across, measure.path, measure.scale)
    if line is None:
        return
    if line.x.max() == 0:  # sends or computes nothing: a level to compare with
        axes.axhline(line.mean[-1], color=look.colour, linestyle=":", linewidth=1.2, label=curve.method)
        return
    axes.fill_between(line.x / divide, line.low, line.high, color=look.colour, alpha=0.18, linewidth=0)
    axes.plot(
        line.x / divide, line.mean, color=look.colour, linewidth=1.5, label=curve.method, linestyle=_line(look),
        marker=MARKERS[look.number % len(MARKERS)] if len(line.x) <= 12 else None, markersize=3.5,
    )  # fmt: skip


def _line(look: Look) -> Line:
    return LINES[look.dash]


@mpl.rc_context(STYLE)
def clients_figure(curves: Sequence[Curve]) -> Figure | None:
    """One point a client: its personal model against the global model, on its own rows. None where no run has both."""
    shown = [curve for curve in curves if any(p.shared is not None and p.personal is not None for p in curve.points)]
    if not shown:
        return None
    errors = any(curve.errors for curve in shown)
    known = [value for curve in shown for p in curve.points for value in (p.shared, p.personal) if value is not None]
    end, sort = (max(known), "rmse") if errors else (100, "%")
    columns = len(shown) if len(shown) <= 4 else 3
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(2.5 * columns, 2.7 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    look = looks(curves)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, curve in zip(grid.flat, shown, strict=False):
        pairs = np.asarray([(p.shared, p.personal) for p in curve.points if p.shared is not None and p.personal is not None])
        axes.plot([0, end], [0, end], color="#aaaaaa", linewidth=1)
        axes.scatter(*((1 if errors else 100) * pairs.T), s=16, color=look[curve.method].colour, alpha=0.6, linewidths=0)
        axes.set(title=curve.method, xlim=(-0.04 * end, 1.04 * end), ylim=(-0.04 * end, 1.04 * end), aspect="equal")
    for axes in grid.flat[max(0, len(shown) - columns) : len(shown)]:  # nothing below them
        axes.set_xlabel(f"global model ({sort})")
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(f"personal model ({sort})")
    return figure


def _short(label: str) -> str:
    return label if len(label) <= 14 else label[:13] + "…"
