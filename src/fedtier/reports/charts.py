"""The charts of a report as plain Plotly objects. Every trace names its method in `meta`, so that a legend can hide it.

Colours are those of a light page, each standing for one thing: a dark page replaces them by `style.DARK`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..experiments.label_counts import LabelCounts
from ..experiments.metrics import FEWEST
from .load_runs import Band, Curve, band
from .plots import BUBBLES_UP_TO
from .style import AXIS, FAINT, FEW, GRID, INK, MANY, PALETTE, PAPER, SOME, Across, Look, Measure, unit

Chart = dict[str, Any]  # {"data": traces, "layout": layout}
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "triangle-left", "triangle-right")
MOST_POINTS = 4000  # of one scatter; more seeds than that add ink, not knowledge
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif", "size": 12, "color": INK}


def curve_chart(curves: Sequence[Curve], look: dict[str, Look], measure: Measure, across: Across) -> Chart:
    """Mean over seeds with a band from the lowest to the highest; a level where a method sends or computes nothing."""
    scale = unit(curves, across)
    traces: list[dict[str, Any]] = []
    drawn: list[Band] = []
    for curve in curves:
        line = band(curve, across.key, measure.path, measure.scale)
        if line is None:
            continue
        drawn.append(line)
        colour = look[curve.method].colour
        common = {"meta": curve.method, "name": curve.method, "showlegend": False}
        if line.x.max() == 0:
            traces.append(common | _level(curves, across, float(line.mean[-1]), colour, scale.divide))
            continue
        keep = line.x > 0 if scale.log else np.ones(len(line.x), bool)
        x, mean, low, high = (_numbers(a[keep], d) for a, d in zip(line, (scale.divide, 1, 1, 1), strict=True))
        if low != high:
            outline = {"x": [*x, *x[::-1]], "y": [*high, *low[::-1]]}
            fill = {"fill": "toself", "fillcolor": f"{colour}22", "line": {"width": 0}, "hoverinfo": "skip", "mode": "lines"}
            traces.append(common | outline | fill)
        marker = {"size": 5, "symbol": SYMBOLS[look[curve.method].number % len(SYMBOLS)]}
        style = {"line": {"color": colour, "width": 2, "dash": look[curve.method].dash}, "marker": marker}
        hover = {"hovertemplate": "%{y:.4g}"}
        traces.append(common | {"x": x, "y": mean, "mode": "lines+markers" if len(x) <= 25 else "lines"} | style | hover)
    layout = _layout(measure.title, scale.axis, measure.axis)
    layout["xaxis"] |= {"type": "log", "dtick": 1} if scale.log else {"rangemode": "tozero"}
    layout["hovermode"] = "x unified" if across.key == "round" else "closest"
    layout["yaxis"] |= _frame(drawn, measure)
    return {"data": traces, "layout": layout}


def _frame(drawn: Sequence[Band], measure: Measure) -> dict[str, Any]:
    """The part of the axis where accuracies differ: from the lowest mean after the first fifth of the evaluations on. A loss
    or an error that falls more than five-fold has a logarithmic axis instead."""
    late = [line.mean[min(len(line.mean) - 1, -(-len(line.mean) // 5)) :] for line in drawn]
    if not late:
        return {}
    if measure.scale == 1.0:  # a loss or an error
        every = np.concatenate([line.mean for line in drawn])
        marks = [float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 2, 5)]
        inside = [mark for mark in marks if 0.8 * every.min() < mark < 1.3 * every.max()]
        log = {"type": "log", "tickvals": inside, "ticktext": [f"{mark:g}" for mark in inside]}
        return log if every.min() > 0 and every.max() > 5 * every.min() else {}
    low, high = min(map(np.min, late)), max(line.high.max() for line in drawn)
    low = min(low, *(float(line.low[-1]) for line in drawn))
    pad = max(1.0, 0.08 * (high - low))
    return {"range": [round(max(low - pad, -2.0), 2), round(min(high + pad, 102.0), 2)]}


def _level(curves: Sequence[Curve], across: Across, value: float, colour: str, divide: float) -> dict[str, Any]:
    lines = [line for line in (band(curve, across.key, ("round",)) for curve in curves) if line is not None]
    ends = [edge for line in lines if line.x.max() > 0 for edge in (line.x[line.x > 0].min(), line.x.max())] or [0.0, 1.0]
    x = [float(min(ends)) / divide, float(max(ends)) / divide]
    style = {"mode": "lines", "line": {"color": colour, "width": 1.5, "dash": "dot"}}
    return {"x": x, "y": [value, value], "hovertemplate": "sends nothing, ends at %{y:.4g}"} | style


def client_charts(curves: Sequence[Curve], look: dict[str, Look], most: int = MOST_POINTS) -> list[tuple[str, Chart]]:
    """By method, one point a client: the personal against the global model, all on one scale; none without both."""
    shown = {curve.method: _pairs(curve)[: most // max(1, len(curves))] for curve in curves}
    errors = any(curve.errors for curve in curves)
    axis, ends = _error_axis(shown) if errors else _share_axis(shown)
    diagonal = {"x": ends, "y": ends, "mode": "lines", "line": {"color": FAINT, "width": 1}, "hoverinfo": "skip"}
    out = []
    for method, pairs in shown.items():
        if not pairs:
            continue
        x, y, words, few = zip(*pairs, strict=True)
        dots = {
            "x": x, "y": y, "text": words, "meta": method, "mode": "markers", "showlegend": False,
            "hovertemplate": "%{text}<br>global %{x:.4g}, personal %{y:.4g}<extra></extra>",
            "marker": {
                "color": look[method].colour, "size": 8, "opacity": 0.6,
                "symbol": ["circle-open" if one else "circle" for one in few],
            },
        }  # fmt: skip
        sort = "rmse" if errors else "%"
        layout = _layout(method, f"global model ({sort})", f"personal model ({sort})")
        layout["xaxis"] |= axis
        layout["yaxis"] |= axis | {"scaleanchor": "x"}
        out.append((method, {"data": [diagonal | {"showlegend": False}, dots], "layout": layout}))
    return out


Pairs = list[tuple[float, float, str, bool]]


def _share_axis(shown: dict[str, Pairs]) -> tuple[dict[str, Any], list[float]]:
    """The axis of accuracies, from the ten below the lowest to 100, and the ends of its diagonal."""
    lowest = min((min(pair[:2]) for pairs in shown.values() for pair in pairs), default=0.0)
    start = max(0.0, 10 * float(np.floor(lowest / 10)))
    frame = [round(start - 0.04 * (100 - start) - 1, 2), round(101 + 0.03 * (100 - start), 2)]
    return {"range": frame, "dtick": 20 if start < 50 else 10, "constrain": "domain"}, [start, 100.0]


def _error_axis(shown: dict[str, Pairs]) -> tuple[dict[str, Any], list[float]]:
    """The axis of errors, from 0 to the largest, and the ends of its diagonal."""
    largest = max((max(pair[:2]) for pairs in shown.values() for pair in pairs), default=1.0)
    return {"range": [-0.04 * largest, 1.06 * largest], "constrain": "domain"}, [0.0, largest]


def _pairs(curve: Curve) -> Pairs:
    """(global, personal, who, whether it has few test rows) of each client with both models."""
    several, scale = len({point.seed for point in curve.points}) > 1, 1.0 if curve.errors else 100.0
    return [
        (
            _number(scale * p.shared), _number(scale * p.personal),
            curve.client(p.client) + (f", seed {p.seed}" if several else ""),
            p.rows is not None and p.rows < FEWEST,
        )
        for p in curve.points
        if p.shared is not None and p.personal is not None
    ]  # fmt: skip


def partition_chart(counts: LabelCounts) -> Chart:
    """Who has how many rows of which class: bubbles, or a shaded grid where there are too many to tell apart."""
    return _shades(counts) if max(counts.clients.shape) > BUBBLES_UP_TO else _bubbles(counts)


def _shades(counts: LabelCounts) -> Chart:
    """The fainter, the fewer rows; the server has a column of its own on the right, at the same scale."""
    clients, classes = counts.clients.shape
    order = np.argsort(-counts.clients.sum(axis=1), kind="stable")
    names = [_party(counts, int(k)) for k in order]
    ticks = [n for n in (0, 1, 10, 100, 1000, 10_000, 100_000) if n <= max(counts.clients.max(), counts.server.max())]
    bar = {
        "title": {"text": "rows"}, "tickvals": [_depth(n) for n in ticks], "ticktext": [f"{n:,}" for n in ticks],
        "outlinewidth": 0, "thickness": 14,
    }  # fmt: skip

    def part(table: np.ndarray, who: list[str], axis: str) -> dict[str, Any]:
        words = [[f"{name}: {n:,} rows of class {label}" for name, n in zip(who, row, strict=True)] for label, row in
                 zip(counts.labels, table.tolist(), strict=True)]  # fmt: skip
        shades = {"type": "heatmap", "z": _depth(table).round(3).tolist(), "coloraxis": "coloraxis", "xaxis": axis}
        return shades | {"text": words, "hovertemplate": "%{text}<extra></extra>", "xgap": 0, "ygap": 1 if classes <= 40 else 0}

    layout = _layout(counts.title, f"{clients:,} clients, the largest first", "class")
    layout["yaxis"] |= _classes(counts) | {"showgrid": False}
    layout["xaxis"] |= {"domain": [0, 0.93], "showgrid": False}
    side = {"domain": [0.95, 1], "tickvals": [0], "ticktext": ["server"], "showgrid": False, "zeroline": False, "anchor": "y"}
    layout["xaxis2"] = side
    scale = [[0, FEW], [0.5, SOME], [1, MANY]]
    layout["coloraxis"] = {"colorscale": scale, "cmin": 0, "cmax": _depth(max(counts.clients.max(), counts.server.max()))}
    layout["coloraxis"]["colorbar"] = bar
    return {
        "data": [part(counts.clients[order].T, names, "x"), part(counts.server[:, None], ["server"], "x2")],
        "layout": layout,
    }


def _depth(rows: Any) -> Any:
    return np.log10(1 + np.asarray(rows)) if isinstance(rows, np.ndarray) else float(np.log10(1 + int(rows)))


def _bubbles(counts: LabelCounts) -> Chart:
    """The area of a bubble is the number of rows; the server stands apart on the right."""
    clients, classes = counts.clients.shape
    table = np.vstack([counts.clients, counts.server])
    names = [*(_party(counts, k) for k in range(clients)), "server"]
    places = [(k, c) for k in range(clients + 1) for c in range(classes) if table[k, c]]
    at = [*range(clients), clients + 0.5]
    bubbles = {
        "type": "scatter", "mode": "markers", "x": [at[k] for k, _ in places], "y": [c for _, c in places],
        "text": [f"{names[k]}: {table[k, c]:,} rows of class {counts.labels[c]}" for k, c in places],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": [int(table[k, c]) for k, c in places], "sizemode": "area", "sizeref": 2.0 * int(table.max()) / 26.0**2,
            "color": [PALETTE[4] if k == clients else PALETTE[0] for k, _ in places], "opacity": 0.85, "line": {"width": 0},
        },
    }  # fmt: skip
    layout = _layout(counts.title, "client", "class")
    layout["xaxis"] |= {
        "tickvals": at, "ticktext": [*counts.names, "server"], "range": [-0.7, clients + 1.2], "automargin": True,
    }  # fmt: skip
    layout["yaxis"] |= _classes(counts) | {"range": [-0.7, classes - 0.3]}
    return {"data": [bubbles], "layout": layout}


def _party(counts: LabelCounts, number: int) -> str:
    name = counts.names[number]
    return f"client {name}" if name == str(number) else name


def _classes(counts: LabelCounts) -> dict[str, Any]:
    many = len(counts.labels) > BUBBLES_UP_TO
    return {} if many else {"tickvals": [*range(len(counts.labels))], "ticktext": [*counts.labels]}


def _layout(title: str, x: str, y: str) -> dict[str, Any]:
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": AXIS, "showline": True, "ticks": "outside", "ticklen": 4}
    return {
        "title": {"text": f"<b>{_short(title)}</b>", "x": 0, "xanchor": "left", "pad": {"l": 6}, "font": {"size": 13}},
        "font": FONT, "margin": {"l": 58, "r": 14, "t": 38, "b": 46}, "paper_bgcolor": PAPER, "plot_bgcolor": PAPER,
        "xaxis": axis | {"title": {"text": x, "standoff": 8}},
        "yaxis": axis | {"title": {"text": y, "standoff": 8}, "automargin": True},
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": AXIS, "font": {"color": INK}},
        "showlegend": False, "dragmode": False,
    }  # fmt: skip


def _short(words: str) -> str:
    return words if len(words) <= 36 else words[:35] + "…"


def _numbers(values: np.ndarray, divide: float) -> list[float]:
    return [_number(value / divide) for value in values]


def _number(value: float) -> float:
    return float(f"{value:.6g}")
