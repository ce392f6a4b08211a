"""The picture of the study: accuracy against epsilon, a line a method with its intervals; no privacy at all at the right."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from ...experiments.outcomes import Outcome, score
from ...reports import plots
from ...reports.style import FAINT, PALETTE

NONE = "none"  # the label of the setting without privacy
Lines = dict[
    str, dict[str, list[float]]
]  # of each line, by budget: the mean, and the half-width of its interval where there is one


class Place(NamedTuple):
    """A budget on the axis."""

    at: float
    label: str


def lines_of(outcome: Outcome, published: dict[str, dict[str, float]]) -> Lines:
    """What is drawn: the cells that were measured, then published means."""
    metric, found = outcome.comparison.metrics[0], {}
    for method, setting in outcome.finals:
        one = score(outcome, method, setting, metric)
        if not math.isnan(one.mean):
            found.setdefault(method, {})[setting] = [one.mean] if math.isnan(one.half) else [one.mean, one.half]
    theirs = {name: {setting: [value] for setting, value in row.items()} for name, row in published.items()}
    return found | theirs


def save(lines: Lines, stem: Path) -> list[str]:
    """The picture as SVG, PDF and PNG; the names of the files."""
    figure = draw(lines)
    paths = [stem.with_suffix(f".{ending}") for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


def inline(lines: Lines, about: str) -> str:
    """The picture as an element of a page."""
    text = io.StringIO()
    with mpl.rc_context(plots.STYLE):
        draw(lines).savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{about}"', 1)


@mpl.rc_context(plots.STYLE)
def draw(lines: Lines) -> Figure:
    """Means with their 95 % intervals on a logarithmic axis; lines without intervals, published by others, are dashed."""
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    places = _places(lines)
    for number, (name, points) in enumerate(lines.items()):
        ours = any(len(values) > 1 for values in points.values())
        known = [place for place in places if place.label in points]
        apart = 1.04 ** (number - (len(lines) - 1) / 2)  # so that intervals do not hide each other
        means, halves = ([points[place.label][k : k + 1] or [0.0] for place in known] for k in (0, 1))
        axes.errorbar(
            [place.at * apart for place in known], [one[0] for one in means], yerr=[one[0] for one in halves],
            fmt="o-" if ours else "s--", color=PALETTE[number % len(PALETTE)] if ours else FAINT, label=name, capsize=2,
            markersize=4, elinewidth=1,
        )  # fmt: skip
    axes.set(xlabel="epsilon", ylabel="accuracy (%)", xscale="log")
    axes.set_xticks([place.at for place in places], [place.label for place in places])
    axes.minorticks_off()
    axes.legend(fontsize=7, loc="lower right")
    return figure


def _places(lines: Lines) -> list[Place]:
    """The budgets from the strictest on; no privacy at all stands beyond the loosest."""
    labels = {label for points in lines.values() for label in points}
    budgets = sorted((Place(float(label), label) for label in labels - {NONE}), key=lambda place: place.at)
    return [*budgets, Place(4 * budgets[-1].at, NONE)] if NONE in labels else budgets
