"""The results of a page as HTML: scores with the best marked, differences with their intervals drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from ..experiments.comparison import METRICS
from ..experiments.outcomes import Interval, Outcome
from . import tables
from .tables import BEST, BETTER, LEVEL, WORSE, Line

Cells = Callable[[Line, str, float], str]  # the cell of a line and a metric; how far the metric's differences reach
SAYS = {BEST: "best mean", LEVEL: "not certainly behind the best", BETTER: "certainly better", WORSE: "certainly worse"}
KINDS = {BEST: "best", LEVEL: "level", BETTER: "better", WORSE: "worse"}


def results(outcome: Outcome) -> str:
    """Both tables and what their marks and intervals mean."""
    found = tables.lines(outcome)
    if not found:
        return ""
    parts = [_table(outcome, found, "Scores", [METRICS[m].heading for m in outcome.comparison.metrics], _scores)]
    apart = [line for line in found if line.differences]
    if apart:
        parts.append(f"<h3>Difference to {escape(outcome.comparison.baseline)}, paired by seed</h3>")
        heads = [tables.difference_heading(m).removeprefix("Δ ") for m in outcome.comparison.metrics]
        parts.append(_table(outcome, apart, f"Difference to {outcome.comparison.baseline}", heads, _differences))
    words = "; ".join(filter(None, (tables.marks_note(outcome), tables.note(outcome))))
    tuned = "".join(f"<li>{escape(line)}</li>" for line in tables.tuning(outcome))
    how = f'<p class="note">How settings were found:</p><ul class="note">{tuned}</ul>' if tuned else ""
    return "".join(parts) + f'<p class="note">{escape(words[0].upper() + words[1:])}.</p>{how}'


def scroll(inside: str, words: str) -> str:
    """What may be wider than its place: it scrolls by itself, and says so where it does."""
    label = escape(words, quote=True)
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{inside}</div>'


def _table(outcome: Outcome, found: list[Line], words: str, heads: list[str], cell: Cells) -> str:
    counted = len({line.seeds for line in found}) > 1
    headings = ["method", *(["seeds"] if counted else []), *heads]
    top = "".join(f'<th scope="col"{_kind(k)}>{escape(head)}</th>' for k, head in enumerate(headings))
    body, setting = [], ""
    largest = {m: _reach(found, m) for m in outcome.comparison.metrics}
    for line in found:
        if line.setting != setting:
            setting = line.setting
            body.append(f'<tr class="group"><th scope="rowgroup" colspan="{len(headings)}">{escape(setting)}</th></tr>')
        seeds = f"<td>{line.seeds}</td>" if counted else ""
        inside = "".join(cell(line, m, largest[m]) for m in outcome.comparison.metrics)
        body.append(f'<tr><th scope="row" class="method">{escape(line.method)}</th>{seeds}{inside}</tr>')
    return scroll(f'<table class="results"><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table>', words)


def _kind(column: int) -> str:
    return "" if column else ' class="method"'


def _scores(line: Line, metric: str, reach: float) -> str:
    return _cell(tables.show(line.scores[metric], metric), line.marks[metric])


def _differences(line: Line, metric: str, reach: float) -> str:
    value = line.differences[metric]
    return _cell(tables.show(value, metric, plus="+"), line.verdicts[metric], _bar(value, reach, line.verdicts[metric]))


def _cell(words: str, mark: str, below: str = "") -> str:
    number, _, half = words.partition(" ± ")
    half = f"<small>± {half}</small>" if half else ""
    said = f'<abbr class="mark" title="{SAYS[mark]}" aria-label="{SAYS[mark]}">{mark}</abbr>' if mark else ""
    kind = f' class="{KINDS[mark]}"' if mark else ""
    return (
        f'<td{kind}><span class="value"><span>{escape(number)}</span>{half}<span class="place">{said}</span></span>{below}</td>'
    )


def _reach(found: list[Line], metric: str) -> float:
    """How far from 0 the widest interval of a column goes, the scale of its drawings."""
    known = [d for line in found for m, d in line.differences.items() if m == metric and not math.isnan(d.mean)]
    return max((abs(d.mean) + (0.0 if math.isnan(d.half) else d.half) for d in known), default=0.0)


def _bar(value: Interval, reach: float, mark: str) -> str:
    """The interval to scale around 0: a full dot where it excludes 0, a hollow one where it does not."""
    if math.isnan(value.mean) or not reach:
        return ""
    half = 0.0 if math.isnan(value.half) else value.half
    left, middle, right = (60 + 56 * x / reach for x in (value.mean - half, value.mean, value.mean + half))
    return (
        '<svg class="bar" viewBox="0 0 120 12" width="120" height="12" aria-hidden="true">'
        '<line class="zero" x1="60" y1="0" x2="60" y2="12"/>'
        f'<line class="span" x1="{left:.1f}" y1="6" x2="{right:.1f}" y2="6"/>'
        f'<circle class="{"full" if mark else "hollow"}" cx="{middle:.1f}" cy="6" r="3.2"/></svg>'
    )
