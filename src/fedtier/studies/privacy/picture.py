"""The picture of the study: accuracy by budget, a line a method, from none at all to the strictest."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...experiments.outcomes import Outcome, values
from ...reports import plots
from ...reports.style import FAINT, PALETTE


def save(outcome: Outcome, published: dict[str, dict[str, float]], stem: Path) -> list[str]:
    """The picture as SVG, PDF and PNG; the names of the files."""
    figure = draw(outcome, published)
    paths = [stem.with_suffix(f".{ending}") for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def draw(outcome: Outcome, published: dict[str, dict[str, float]]) -> Figure:
    """Accuracies of all seeds as dots, their means joined; published means as a broken line."""
    methods = list(dict.fromkeys(method for method, _ in outcome.finals))
    settings = list(dict.fromkeys(setting for _, setting in outcome.finals))
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(settings))
    for number, method in enumerate(methods):
        colour = PALETTE[number % len(PALETTE)]
        found = [values(outcome.finals.get((method, setting), []), "global") for setting in settings]
        means = np.asarray([np.mean(one) if len(one) else np.nan for one in found])
        axes.plot(places, means, "o-", color=colour, label=method)
        for place, one in zip(places, found, strict=True):
            axes.plot(np.full(len(one), place), one, ".", color=colour, markersize=3, alpha=0.5)
    for name, row in published.items():
        known = [(place, row[setting]) for place, setting in enumerate(settings) if setting in row]
        axes.plot(*zip(*known, strict=True), "s--", color=FAINT, label=name)
    axes.set(xlabel="epsilon", ylabel="accuracy (%)")
    axes.set_xticks(places, settings)
    axes.legend(fontsize=7)
    return figure
