"""The picture of the study: every method with its interval, for each setting and measure."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ...experiments.outcomes import Interval, Outcome
from ...reports import plots, tables

SHOWN = {"global": "global model", "personal_by_rows": "personal models, by rows"}


def save(outcome: Outcome, stem: Path) -> list[str]:
    """Writes the picture as SVG, PDF and PNG; the names of the files."""
    figure = picture(outcome)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


@mpl.rc_context(plots.STYLE)
def picture(outcome: Outcome) -> Figure:
    """A panel a setting and measure: the methods by rising accuracy, each with its interval, the baseline as a line."""
    lines = tables.lines(outcome)
    settings = list(dict.fromkeys(line.setting for line in lines))
    most = max(sum(line.setting == setting for line in lines) for setting in settings)
    figure = Figure(figsize=(4.2 * len(settings), 0.6 + 2 * (0.8 + 0.19 * most)), layout="constrained")
    grid = figure.subplots(len(SHOWN), len(settings), squeeze=False)
    for axes_row, (metric, title) in zip(grid, SHOWN.items(), strict=True):
        for axes, setting in zip(axes_row, settings, strict=True):
            here = [line for line in lines if line.setting == setting and np.isfinite(line.scores[metric].mean)]
            here.sort(key=lambda line: line.scores[metric].mean)
            scores: list[Interval] = [line.scores[metric] for line in here]
            base = next((line.scores[metric].mean for line in here if line.method == outcome.comparison.baseline), None)
            if base is not None:
                axes.axvline(base, color="#888888", linewidth=0.8, linestyle="--")
            halves = [0.0 if np.isnan(score.half) else score.half for score in scores]
            axes.errorbar([score.mean for score in scores], range(len(here)), xerr=halves, fmt="o", markersize=3.5, linewidth=1)
            axes.set_yticks(range(len(here)), [line.method for line in here], fontsize=7)
            axes.set_title(f"{setting} {title}".strip())
            axes.set_xlabel(f"accuracy (%); dashed: {outcome.comparison.baseline}")
            median = float(np.median([score.mean for score in scores])) if scores else 0.0
            low = min((score.mean for score in scores if score.mean > median - 25), default=0.0)
            high = max((score.mean for score in scores), default=100.0)
            axes.set_xlim(low - 2, high + 3)  # what lies far below is written at the margin; few seeds make long intervals
            for place, score in enumerate(scores):
                if score.mean < low - 2:
                    axes.annotate(f"← {score.mean:.0f}", (low - 1.8, place), fontsize=6, va="center")
    return figure
