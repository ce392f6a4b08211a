"""One comparison table: for the terminal, for a paper, for a spreadsheet, for a program (html.py: for a page).

Every format shows the same: mean and 95 % interval of each metric, then the paired difference to the baseline. For people
the best mean of a column, what is not certainly behind it, and differences whose interval excludes 0 have marks.
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from rich.table import Table

from ..experiments.comparison import METRICS
from ..experiments.outcomes import Interval, Outcome, paired, score, values
from ..methods import registry
from ..own_code.naming import short
from ..storage.json_value import Json
from . import findings, layout
from .layout import Grid, folded
from .strict_json import known

BEST, LEVEL, BETTER, WORSE = "★", "≈", "▲", "▼"
ONCE = "personal: the mean over clients, each on its own test rows, where a client counts once, however few rows it has"
BY_ROWS = "by rows: every client's test row counts once"
UNTRAINED = "parts of the model stay at the clients, and the global model has them as at the start: judge the personal models"
OF_GLOBAL = {"global", "global_on_clients", "rmse", "mae", "r2", "loss"}  # metrics of the global model


class Line(NamedTuple):
    method: str
    setting: str
    seeds: int
    scores: dict[str, Interval]  # by metric
    differences: dict[str, Interval]  # to the baseline; empty for the baseline itself
    marks: dict[str, str]  # of the scores: BEST, LEVEL or nothing
    verdicts: dict[str, str]  # of the differences: BETTER, WORSE or nothing


def lines(outcome: Outcome) -> list[Line]:
    metrics, base = outcome.comparison.metrics, outcome.comparison.baseline
    settings = dict.fromkeys(setting for _, setting in outcome.finals)
    best = {(setting, metric): findings.lead(outcome, metric, setting) for setting in settings for metric in metrics}
    out = []
    for (method, setting), rows in outcome.finals.items():
        own = method == base or (base, setting) not in outcome.finals
        differences = {} if own else {m: paired(outcome, method, setting, m) for m in metrics}
        scores = {m: score(outcome, method, setting, m) for m in metrics}
        marks = {m: _mark(best[setting, m], method, scores[m]) for m in metrics}
        verdicts = {m: _verdict(difference, m) for m, difference in differences.items()}
        out.append(Line(method, setting, len(rows), scores, differences, marks, verdicts))
    return out


def _mark(best: findings.Lead | None, method: str, value: Interval) -> str:
    if best is None or not best.other or math.isnan(value.mean):
        return ""
    level = method in best.unsure and not math.isnan(best.margin.half)
    return BEST if method == best.method or method in best.tied else LEVEL if level else ""


def _verdict(difference: Interval, metric: str) -> str:
    if not difference.excludes_zero():
        return ""
    return BETTER if (difference.mean > 0) != findings.lower_is_better(metric) else WORSE


def headings(outcome: Outcome) -> list[str]:
    """method, setting (where there are several), seeds, each metric, each difference."""
    several = ["setting"] if _settings(outcome) else []
    metrics = [METRICS[metric].heading for metric in outcome.comparison.metrics]
    points = [difference_heading(metric) for metric in outcome.comparison.metrics]
    return [*several, "method", "seeds", *metrics, *(points if compares(outcome) else [])]


def cells(outcome: Outcome) -> list[list[str]]:
    """The table's words, a row per line of `lines`."""
    rows = []
    for line in lines(outcome):
        several = [line.setting] if _settings(outcome) else []
        scores = [show(line.scores[m], m) for m in outcome.comparison.metrics]
        apart = [show(line.differences[m], m, plus="+") if m in line.differences else "" for m in outcome.comparison.metrics]
        rows.append([*several, line.method, str(line.seeds), *scores, *(apart if compares(outcome) else [])])
    return rows


def show(value: Interval, metric: str, plus: str = "") -> str:
    """`91.20 ± 0.31`; a dash where there is nothing to measure, no half-width from a single seed."""
    if math.isnan(value.mean):
        return "-"
    digits = 2 if METRICS[metric].percent else decimals(max(abs(value.mean), 0.0 if math.isnan(value.half) else value.half))
    half = "" if math.isnan(value.half) else f" ± {value.half:.{digits}f}"
    return f"{round(value.mean, digits) + 0.0:{plus}.{digits}f}{half}"  # + 0.0: no -0.00


def decimals(value: float) -> int:
    """Four for a number below 10, one fewer for each digit more before the point: 0.1234, 51.234, 1234.5."""
    return 4 if value < 10 else max(0, 4 - math.floor(math.log10(value)))


def rich_table(outcome: Outcome) -> list[Table | str]:
    """For a terminal of 80 columns: a table of scores and one of differences for each setting, the finding, the note."""
    parts: list[Table | str] = []
    for setting in dict.fromkeys(setting for _, setting in outcome.finals):
        here = [line for line in lines(outcome) if line.setting == setting]
        parts += map(layout.rich_table, layout.narrow(_scores(outcome, here, setting)))
        if any(line.differences for line in here):
            title = ", ".join(filter(None, (setting, f"difference to {outcome.comparison.baseline}")))
            apart = _differences(outcome, [line for line in here if line.differences], title)
            parts += map(layout.rich_table, layout.narrow(apart))
    found = findings.sentence(outcome)
    return [*parts, *(folded(words) for words in (found, marks_note(outcome), note(outcome), *tuning(outcome)) if words)]


def tuning(outcome: Outcome) -> list[str]:
    """How the settings of each cell were found, where they were searched."""
    cells = [cell for cell in outcome.comparison.cells if cell.tuned]
    return [f"{cell.method}{f', {cell.setting}' if cell.setting else ''}: {cell.tuned}" for cell in cells]


def scores_table(outcome: Outcome, here: list[Line], title: str, more: dict[str, dict[str, str]]) -> Table:
    """Methods x metrics with their marks; `more` has further columns by heading and method."""
    grid = _scores(outcome, here, title)
    rows = [[*row, *(column[row[0]] for column in more.values())] for row in grid.rows]
    return layout.rich_table(grid._replace(headings=[*grid.headings, *more], rows=rows))


def _scores(outcome: Outcome, here: list[Line], title: str) -> Grid:
    metrics = outcome.comparison.metrics
    counted = len({line.seeds for line in here}) > 1  # else the note says how many
    headings = ["method", *(["seeds"] if counted else []), *(_short_lines(METRICS[m].heading) for m in metrics)]
    rows = [
        [
            line.method,
            *([str(line.seeds)] if counted else []),
            *(_aligned(show(line.scores[m], m), line.marks[m]) for m in metrics),
        ]
        for line in here
    ]
    return Grid(headings, rows, 1, title)


def _differences(outcome: Outcome, here: list[Line], title: str) -> Grid:
    headings = ["method", *(_short_lines(difference_heading(m)) for m in outcome.comparison.metrics)]
    rows = [
        [line.method, *(_aligned(show(d, m, plus="+"), line.verdicts[m]) for m, d in line.differences.items())] for line in here
    ]
    return Grid(headings, rows, 1, title)


def _short_lines(heading: str) -> str:
    """A heading in lines no longer than the numbers below it."""
    return textwrap.fill(heading, 15, break_long_words=False)


def _aligned(words: str, mark: str) -> str:
    return f"{words} {mark or ' '}"


def markdown(outcome: Outcome) -> str:
    return "\n".join([layout.markdown(grid(outcome)), "", note(outcome), *(f"- {line}" for line in tuning(outcome)), ""])


def latex(outcome: Outcome) -> str:
    """A tabular for \\usepackage{booktabs}."""
    words = note(outcome).replace("±", "+-").replace("Δ", "Delta")
    return "\n".join([f"% {words}", layout.latex(grid(outcome)), ""])


def grid(outcome: Outcome) -> Grid:
    """The words of the table with their headings."""
    left = 2 if _settings(outcome) else 1
    return Grid(headings(outcome), cells(outcome), left, groups=[line.setting for line in lines(outcome)])


def comma_separated(outcome: Outcome) -> str:
    """Plain numbers in full precision: mean, half-width, difference and its half-width per metric; empty where unknown."""
    parts = ("mean", "half_width", "difference", "difference_half_width")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["setting", "method", "seeds", *(f"{m}_{part}" for m in outcome.comparison.metrics for part in parts)])
    for line in lines(outcome):
        empty = Interval(float("nan"), float("nan"))
        numbers = [n for m in outcome.comparison.metrics for n in (*line.scores[m], *line.differences.get(m, empty))]
        writer.writerow([line.setting, line.method, line.seeds, *("" if math.isnan(n) else repr(n) for n in numbers)])
    return file.getvalue()


def as_object(outcome: Outcome) -> dict[str, Json]:
    cells = {(cell.method, cell.setting): cell for cell in outcome.comparison.cells}

    def one(line: Line, metric: str) -> dict[str, Json]:
        numbers = values(outcome.finals[line.method, line.setting], metric)
        apart = line.differences.get(metric)
        each = {"mean": line.scores[metric].mean, "half_width": line.scores[metric].half, "values": numbers.tolist()}
        each |= {"best": line.marks[metric] == BEST, "level_with_best": line.marks[metric] in (BEST, LEVEL)}
        return known(each | ({"difference": {"mean": apart.mean, "half_width": apart.half}} if apart else {}))

    return {
        "baseline": outcome.comparison.baseline,
        "finding": findings.sentence(outcome),
        "intervals": findings.how_intervals(outcome),
        "cells": [
            {
                "method": line.method, "setting": line.setting, "run": str(cells[line.method, line.setting].folder),
                "tuned": cells[line.method, line.setting].tuned or None,
                "seeds": [row["seed"] for row in outcome.finals[line.method, line.setting]],
                "metrics": {metric: one(line, metric) for metric in outcome.comparison.metrics},
            }
            for line in lines(outcome)
        ],
    }  # fmt: skip


FORMATS: dict[str, Callable[[Outcome], str]] = {"markdown": markdown, "latex": latex, "csv": comma_separated}
SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


def _settings(outcome: Outcome) -> bool:
    return any(setting for _, setting in outcome.finals)


def compares(outcome: Outcome) -> bool:
    return len({method for method, _ in outcome.finals}) > 1


def difference_heading(metric: str) -> str:
    heading = METRICS[metric].heading
    return f"Δ {heading.removesuffix(' %')}" + (" (points)" if METRICS[metric].percent else "")


def note(outcome: Outcome, differences: bool = True) -> str:
    """How to read the table: which interval it is, whom a difference is taken to, how clients are averaged."""
    parts = [findings.how_intervals(outcome)]
    if differences and compares(outcome):
        parts.append(f"Δ: difference to {outcome.comparison.baseline}, paired by seed")
    said = {"personal": ONCE, "personal_rmse": ONCE, "personal_by_rows": BY_ROWS}
    parts += dict.fromkeys(words for metric, words in said.items() if metric in outcome.comparison.metrics)
    return "; ".join([*parts, *_partial(outcome)])


def _partial(outcome: Outcome) -> list[str]:
    """Says whose global model is not to be judged, where a table shows how good it is."""
    shown = OF_GLOBAL & set(outcome.comparison.metrics)
    named = {cell.method or short(cell.config.method.name): cell.config.method for cell in outcome.comparison.cells}
    whose = [name for name, method in named.items() if registry.sketch(method.entry, method.options).partial] if shown else []
    return [f"{findings.joined(whose)}: {UNTRAINED}"] if whose else []


def marks_note(outcome: Outcome, differences: bool = True) -> str:
    """What the marks mean; empty where a table has none."""
    if not compares(outcome):
        return ""
    words = f"{BEST} best mean"
    if any(len(rows) > 1 for rows in outcome.finals.values()):
        words += f", {LEVEL} not certainly behind it: its paired 95 % interval to the best includes 0"
        words += f"; {BETTER} certainly better, {WORSE} certainly worse: the interval excludes 0" if differences else ""
    return words
