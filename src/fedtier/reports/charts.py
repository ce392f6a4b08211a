"""The charts of a report as plain Plotly objects. Every trace names its method in `meta`, so that a legend can hide it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..experiments.label_counts import LabelCounts
from .load_runs import Curve, band
from .plots import BUBBLES_UP_TO
from .style import Across, Look, Measure, unit

Chart = dict[str, Any]  # {"data": traces, "layout": layout}
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "triangle-left", "triangle-right")
MOST_POINTS = 4000  # of one scatter; more seeds than that add ink, not knowledge
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif", "size": 12, "color": "#1f2328"}


def curve_chart(curves: Sequence[Curve], look: dict[str, Look], measure: Measure, across: Across) -> Chart:
    """Mean over seeds with a band from the lowest to the highest; a level where a method sends or computes nothing."""
    scale = unit(curves, across)
    traces: list[dict[str, Any]] = []
    for curve in curves:
        line = band(curve, across.key, measure.path, measure.scale)
        if line is None:
            continue
        colour = look[curve.method].colour
        common = {"meta": curve.method, "name": curve.method, "showlegend": False}
        if line.x.max() == 0:
            traces.append(common | _level(curves, across, float(line.mean[-1]), colour, scale.divide))
            continue
        keep = line.x > 0 if scale.log else np.ones(len(line.x), bool)
        x, mean, low, high = (_numbers(a[keep], d) for a, d in zip(line, (scale.divide, 1, 1, 1), strict=True))
        if low != high:
            outline = {"x": [*x, *x[::-1]], "y": [*high, *low[::-1]]}
            fill = {"fill": "toself", "fillcolor": _pale(colour), "line": {"width": 0}, "hoverinfo": "skip", "mode": "lines"}
            traces.append(common | outline | fill)
        marker = {"size": 5, "symbol": SYMBOLS[look[curve.method].number % len(SYMBOLS)]}
        style = {"line": {"color": colour, "width": 2, "dash": look[curve.method].dash}, "marker": marker}
        traces.append(common | {"x": x, "y": mean, "mode": "lines+markers" if len(x) <= 12 else "lines"} | style)
    layout = _layout(f"{measure.title} against {across.words}", scale.axis, measure.axis)
    layout["xaxis"] |= {"type": "log", "dtick": 1} if scale.log else {"rangemode": "tozero"}
    layout["hovermode"] = "x unified" if across.key == "round" else "closest"
    return {"data": traces, "layout": layout}


def _level(curves: Sequence[Curve], across: Across, value: float, colour: str, divide: float) -> dict[str, Any]:
    lines = [line for line in (band(curve, across.key, ("round",)) for curve in curves) if line is not None]
    ends = [edge for line in lines if line.x.max() > 0 for edge in (line.x[line.x > 0].min(), line.x.max())] or [0.0, 1.0]
    x = [float(min(ends)) / divide, float(max(ends)) / divide]
    style = {"mode": "lines", "line": {"color": colour, "width": 1.5, "dash": "dot"}}
    return {"x": x, "y": [value, value], "hovertemplate": "sends nothing, ends at %{y:.4g}"} | style


def client_chart(curve: Curve, look: dict[str, Look], most: int = MOST_POINTS) -> Chart | None:
    """One point a client: the personal against the global model; None without both."""
    points = [p for p in curve.points if p.shared is not None and p.personal is not None][:most]
    if not points:
        return None
    words = [f"client {p.name}, seed {p.seed}" for p in points]
    diagonal = {"x": [0, 100], "y": [0, 100], "mode": "lines", "line": {"color": "#b0b7bf", "width": 1}, "hoverinfo": "skip"}
    dots = {
        "x": [round(100 * (p.shared or 0.0), 3) for p in points], "y": [round(100 * (p.personal or 0.0), 3) for p in points],
        "text": words, "meta": curve.method, "mode": "markers",
        "hovertemplate": "%{text}: %{x:.1f} % → %{y:.1f} %<extra></extra>",
        "marker": {"color": look[curve.method].colour, "size": 8, "opacity": 0.55},
    }  # fmt: skip
    layout = _layout(curve.method, "global model (%)", "personal model (%)")
    layout["xaxis"] |= {"range": [-4, 104], "dtick": 20, "constrain": "domain"}
    layout["yaxis"] |= {"range": [-4, 104], "dtick": 20, "scaleanchor": "x", "constrain": "domain"}
    return {"data": [diagonal | {"showlegend": False}, dots | {"showlegend": False}], "layout": layout}


def partition_chart(counts: LabelCounts) -> Chart:
    """Bubbles whose area is the number of rows; a shaded grid where there are too many to tell apart."""
    clients, classes = counts.clients.shape
    layout = _layout(counts.title, "client", "class")
    layout["yaxis"] |= {
        "tickvals": list(range(classes)),
        "ticktext": list(counts.labels),
        "automargin": True,
        "zeroline": False,
    }
    if max(clients, classes) > BUBBLES_UP_TO:
        order = np.argsort(-counts.clients.sum(axis=1), kind="stable")
        table = counts.clients[order].T
        if classes > BUBBLES_UP_TO:
            layout["yaxis"] |= {"tickvals": None, "ticktext": None}
        layout["xaxis"]["title"]["text"] = f"{clients:,} clients, the largest first"
        ticks = [n for n in (0, 10, 100, 1000, 10_000, 100_000) if n <= table.max()]
        bar = {
            "title": {"text": "rows"},
            "tickvals": [float(np.log10(1 + n)) for n in ticks],
            "ticktext": [f"{n:,}" for n in ticks],
        }
        shades = {
            "type": "heatmap",
            "z": np.log10(1 + table).round(3).tolist(),
            "customdata": table.tolist(),
            "colorscale": "Blues",
        }
        hover = {"hovertemplate": "class %{y}: %{customdata} rows<extra></extra>", "colorbar": bar, "reversescale": False}
        return {"data": [shades | hover], "layout": layout}
    names = [*counts.names, "server"]
    table = np.vstack([counts.clients, counts.server])
    places = [(k, c) for k in range(clients + 1) for c in range(classes) if table[k, c]]
    at = [*range(clients), clients + 0.5]
    bubbles = {
        "type": "scatter", "mode": "markers", "x": [at[k] for k, _ in places], "y": [c for _, c in places],
        "text": [f"{names[k]}: {table[k, c]:,} rows of class {counts.labels[c]}" for k, c in places],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": [int(table[k, c]) for k, c in places], "sizemode": "area", "sizeref": 2.0 * int(table.max()) / 26.0**2,
            "color": ["#4D4D4D" if k == clients else "#0072B2" for k, _ in places], "opacity": 0.85, "line": {"width": 0},
        },
    }  # fmt: skip
    layout["xaxis"] |= {
        "tickvals": at,
        "ticktext": names,
        "range": [-0.7, clients + 1.2],
        "zeroline": False,
        "automargin": True,
    }
    layout["yaxis"]["range"] = [-0.7, classes - 0.3]
    return {"data": [bubbles], "layout": layout}


def _layout(title: str, x: str, y: str) -> dict[str, Any]:
    axis = {
        "gridcolor": "#e8ebee",
        "zeroline": False,
        "linecolor": "#8c959f",
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
    }
    return {
        "title": {"text": f"<b>{title}</b>", "x": 0, "xanchor": "left", "pad": {"l": 6}, "font": {"size": 13}},
        "font": FONT, "margin": {"l": 58, "r": 14, "t": 38, "b": 46}, "paper_bgcolor": "#fff", "plot_bgcolor": "#fff",
        "xaxis": axis | {"title": {"text": x, "standoff": 8}},
        "yaxis": axis | {"title": {"text": y, "standoff": 8}, "automargin": True},
        "showlegend": False, "dragmode": False,
    }  # fmt: skip


def _numbers(values: np.ndarray, divide: float) -> list[float]:
    return [float(f"{value / divide:.6g}") for value in values]


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
