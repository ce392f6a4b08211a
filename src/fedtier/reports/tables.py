"""One comparison table: for the terminal, for a page, for a paper, for a spreadsheet, for a program.

Every format shows the same: mean and 95 % interval of each metric, then the paired difference to the baseline.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

from rich.table import Table

from ..experiments.comparison import METRICS
from ..experiments.outcomes import Interval, Outcome, interval, paired, values
from . import layout
from .layout import Grid

NOTE = "mean ± half-width of the 95 % interval over seeds; differences are paired by seed"


class Line(NamedTuple):
    method: str
    setting: str
    seeds: int
    scores: dict[str, Interval]  # by metric
    differences: dict[str, Interval]  # to the baseline; empty for the baseline itself


def lines(outcome: Outcome) -> list[Line]:
    out = []
    for (method, setting), rows in outcome.finals.items():
        scores = {metric: interval(values(rows, metric)) for metric in outcome.comparison.metrics}
        own = method == outcome.comparison.baseline or (outcome.comparison.baseline, setting) not in outcome.finals
        differences = {} if own else {m: paired(outcome, method, setting, m) for m in outcome.comparison.metrics}
        out.append(Line(method, setting, len(rows), scores, differences))
    return out


def headings(outcome: Outcome) -> list[str]:
    """method, setting (where there are several), seeds, each metric, each difference."""
    several = ["setting"] if _settings(outcome) else []
    metrics = [METRICS[metric].heading for metric in outcome.comparison.metrics]
    points = [_difference_heading(metric) for metric in outcome.comparison.metrics]
    return [*several, "method", "seeds", *metrics, *(points if _compares(outcome) else [])]


def cells(outcome: Outcome) -> list[list[str]]:
    """The table's words, a row per line of `lines`."""
    rows = []
    for line in lines(outcome):
        several = [line.setting] if _settings(outcome) else []
        scores = [show(line.scores[m], m) for m in outcome.comparison.metrics]
        apart = [show(line.differences[m], m, plus="+") if m in line.differences else "" for m in outcome.comparison.metrics]
        rows.append([*several, line.method, str(line.seeds), *scores, *(apart if _compares(outcome) else [])])
    return rows


def show(value: Interval, metric: str, plus: str = "") -> str:
    """`91.20 ± 0.31`; a dash where there is nothing to measure, no half-width from a single seed."""
    digits = 2 if METRICS[metric].percent else 4
    if math.isnan(value.mean):
        return "-"
    half = "" if math.isnan(value.half) else f" ± {value.half:.{digits}f}"
    return f"{value.mean:{plus}.{digits}f}{half}"


class Half(NamedTuple):
    """A table narrow enough for a screen: the scores, or the differences."""

    title: str
    headings: list[str]
    rows: list[list[str]]  # the setting stands only where it changes
    settings: list[str]  # of each row


def halves(outcome: Outcome) -> list[Half]:
    """The table in two, for screens: scores, then differences to the baseline (without the baseline's own empty lines)."""
    heads, rows, metrics = headings(outcome), cells(outcome), len(outcome.comparison.metrics)
    named = len(heads) - metrics * (2 if _compares(outcome) else 1)
    keep: dict[str, list[int]] = {"": [*range(named + metrics)]}
    if _compares(outcome):
        keep[f"difference to {outcome.comparison.baseline}"] = [*range(named - 1), *range(named + metrics, len(heads))]
    out = []
    for title, columns in keep.items():
        chosen = [(line, row) for line, row in zip(lines(outcome), rows, strict=True) if not title or line.differences]
        settings = [line.setting for line, _ in chosen]
        words = [[row[column] for column in columns] for _, row in chosen]
        for k in range(1, len(words)) if _settings(outcome) else ():
            words[k][0] = "" if settings[k] == settings[k - 1] else words[k][0]
        out.append(Half(title, [heads[column] for column in columns], words, settings))
    return out


def rich_table(outcome: Outcome) -> list[Table | str]:
    parts: list[Table | str] = []
    for half in halves(outcome):
        table = Table(title=half.title or None, title_justify="left")
        for heading in half.headings:
            word = heading in ("method", "setting")
            table.add_column(heading, justify="left" if word else "right", no_wrap=word)
        for k, row in enumerate(half.rows):
            if k and half.settings[k] != half.settings[k - 1]:
                table.add_section()
            table.add_row(*row)
        parts.append(table)
    return [*parts, note(outcome), *tuning(outcome)]


def tuning(outcome: Outcome) -> list[str]:
    """How the settings of each cell were found, where they were searched."""
    cells = [cell for cell in outcome.comparison.cells if cell.tuned]
    return [f"{cell.method}{f', {cell.setting}' if cell.setting else ''}: {cell.tuned}" for cell in cells]


def markdown(outcome: Outcome) -> str:
    return "\n".join([layout.markdown(_grid(outcome)), "", note(outcome), *(f"- {line}" for line in tuning(outcome)), ""])


def latex(outcome: Outcome) -> str:
    """A tabular for \\usepackage{booktabs}."""
    words = note(outcome).replace("±", "+-").replace("Δ", "Delta")
    return "\n".join([f"% {words}", layout.latex(_grid(outcome)), ""])


def _grid(outcome: Outcome) -> Grid:
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


def html(outcome: Outcome) -> str:
    """Both halves; a setting has a line of its own above its methods."""
    several = int(_settings(outcome))

    def table(half: Half) -> str:
        heads = half.headings[several:]

        def row(tag: str, words: list[str]) -> str:
            kinds = [' class="method"' if head == "method" else "" for head in heads]
            return f"<tr>{''.join(f'<{tag}{k}>{escape(w)}</{tag}>' for k, w in zip(kinds, words, strict=True))}</tr>"

        body = ""
        for words in half.rows:
            if several and words[0]:
                body += f'<tr class="group"><td class="method" colspan="{len(heads)}">{escape(words[0])}</td></tr>'
            body += row("td", words[several:])
        title = f"<h3>{escape(half.title[0].upper() + half.title[1:])}</h3>" if half.title else ""
        return f'{title}<div class="scroll"><table><thead>{row("th", heads)}</thead><tbody>{body}</tbody></table></div>'

    return "".join(table(half) for half in halves(outcome))


def as_object(outcome: Outcome) -> dict[str, Any]:
    folders = {(cell.method, cell.setting): str(cell.folder) for cell in outcome.comparison.cells}

    def one(line: Line, metric: str) -> dict[str, Any]:
        numbers = values(outcome.finals[line.method, line.setting], metric)
        apart = line.differences.get(metric)
        each = {"mean": line.scores[metric].mean, "half_width": line.scores[metric].half, "values": numbers.tolist()}
        return _known(each | ({"difference": {"mean": apart.mean, "half_width": apart.half}} if apart else {}))

    return {
        "baseline": outcome.comparison.baseline,
        "cells": [
            {
                "method": line.method, "setting": line.setting, "run": folders[line.method, line.setting],
                "seeds": [row["seed"] for row in outcome.finals[line.method, line.setting]],
                "metrics": {metric: one(line, metric) for metric in outcome.comparison.metrics},
            }
            for line in lines(outcome)
        ],
    }  # fmt: skip


FORMATS: dict[str, Callable[[Outcome], str]] = {"markdown": markdown, "latex": latex, "csv": comma_separated}
SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


def _known(content: Any) -> Any:
    """NaN is no JSON."""
    if isinstance(content, dict):
        return {key: _known(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_known(value) for value in content]
    return None if isinstance(content, float) and math.isnan(content) else content


def _settings(outcome: Outcome) -> bool:
    return any(setting for _, setting in outcome.finals)


def _compares(outcome: Outcome) -> bool:
    return len({method for method, _ in outcome.finals}) > 1


def _difference_heading(metric: str) -> str:
    heading = METRICS[metric].heading
    return f"Δ {heading.removesuffix(' %')}" + (" (points)" if METRICS[metric].percent else "")


def note(outcome: Outcome) -> str:
    return NOTE + (f"; Δ: difference to {outcome.comparison.baseline}" if _compares(outcome) else "")
