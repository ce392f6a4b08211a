"""The picture of the study: a panel an attack, a dot a method, and a line to where the method is without an attack."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...experiments.outcomes import Outcome, values
from ...reports import plots
from ...reports.style import FAINT, PALETTE


def save(outcome: Outcome, stem: Path) -> list[str]:
    """The picture as SVG, PDF and PNG; the names of the files."""
    figure = draw(outcome)
    paths = [stem.with_suffix(f".{ending}") for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def draw(outcome: Outcome) -> Figure:
    """Accuracies of all seeds as dots, their mean as a mark; a cell that diverged has none."""
    methods = list(dict.fromkeys(method for method, _ in outcome.finals))[::-1]
    settings = list(dict.fromkeys(setting for _, setting in outcome.finals))
    figure = Figure(figsize=(1.2 + 1.7 * len(settings), 0.9 + 0.27 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    calm = {method: _mean(outcome, method, settings[0]) for method in methods}
    for axes, setting in zip(panels, settings, strict=True):
        for place, method in enumerate(methods):
            found, mean = values(outcome.finals.get((method, setting), []), "global"), _mean(outcome, method, setting)
            axes.plot([calm[method], mean], [place, place], color=FAINT, linewidth=1.5, zorder=1)
            axes.plot(found, np.full(len(found), place), ".", color=FAINT, markersize=4, zorder=2)
            axes.plot(mean, place, "o", color=PALETTE[0], markersize=5, zorder=3)
        axes.set(title=setting, xlim=(0, 100), xlabel="accuracy (%)")
        axes.set_yticks(range(len(methods)), methods)
    return figure


def _mean(outcome: Outcome, method: str, setting: str) -> float:
    found = values(outcome.finals.get((method, setting), []), "global")
    return float(found.mean()) if len(found) else float("nan")
