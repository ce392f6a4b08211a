"""A table of `sheets` in words: grids for people, sentences about what differs, lines for machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...experiments.outcomes import Outcome, interval
from ...reports.layout import Grid
from .claims import Claims
from .sheets import LATE, Entry

MARKS = "In brackets what others published; ~: further apart than the rule allows, but the intervals overlap; !: differs."


def grids(entries: list[Entry], known: Claims, between: str = " ") -> list[Grid]:
    """Last and best round, each with the published numbers in the one that they are held against."""
    return [
        _grid(entries, "Last round", lambda entry: _beside(entry, entry.last, "last", known, between)),
        _grid(entries, "Best round", lambda entry: _beside(entry, entry.best, "best", known, between)),
    ]


def _grid(entries: list[Entry], title: str, show: Any) -> Grid:
    shown = {(entry.row, entry.column): show(entry) for entry in entries}
    names, columns = (list(dict.fromkeys(getattr(entry, key) for entry in entries)) for key in ("row", "column"))
    if all(column.isdigit() for column in columns):
        columns.sort(key=int)
    rows = [[name, *(shown.get((name, column), "") for column in columns)] for name in names]
    return Grid(["method", *columns], rows, left=1, title=title)


def _beside(entry: Entry, values: np.ndarray, which: str, known: Claims, between: str) -> str:
    told = number(values)
    claims = known.get((entry.row, entry.column), [])
    if which != entry.judged or not claims:
        return told
    return f"{told}{entry.verdict.mark}{between}({', '.join(claim.told() for claim in claims)})"


def number(values: np.ndarray) -> str:
    return f"{values.mean():.1f}±{values.std():.1f}" if len(values) > 1 else f"{values.mean():.1f}"


def verdicts(entries: list[Entry], known: Claims, explained: dict[str, str]) -> Grid:
    """A line for every cell that others published: both intervals, how far a seed's number moves in its last scores (a
    published number of one run at one round is as uncertain), the verdict and the explanation."""
    rows = []
    for entry in (entry for entry in entries if entry.verdict.word):
        claims, word = known[entry.row, entry.column], entry.verdict.word
        told = word if word == "agrees" else f"{word}: {entry.verdict.difference:+.1f}" if word != "differs" else _by(entry)
        why = explained.get(entry.row, "") if word == "differs" else ""
        theirs = "; ".join(f"{claim.source} {claim.told()} {_span(claim.interval)}".strip() for claim in claims)
        ours = f"{number(entry.shown)} {_span(interval(entry.shown))}".strip()
        rows.append([entry.column, entry.row, ours, f"{entry.late.min():.1f} to {entry.late.max():.1f}", theirs, told, why])
    head = ["column", "method", "ours [95 %]", f"last {LATE} scores, all seeds", "published [95 %]", "verdict", "why"]
    return Grid(head, rows, left=7, title="Every cell")


def _by(entry: Entry) -> str:
    return f"differs by {entry.verdict.difference:+.1f}"


def _span(one: Any) -> str:
    return f"[{one.mean - one.half:.1f}, {one.mean + one.half:.1f}]" if np.isfinite(one.half) else ""


def sentences(entries: list[Entry], known: Claims, explained: dict[str, str]) -> list[str]:
    """How many cells agree, and what each that does not differs by, with why."""
    judged = [entry for entry in entries if entry.verdict.word]
    count = {word: sum(entry.verdict.word == word for entry in judged) for word in ("agrees", "intervals overlap", "differs")}
    lines = [
        f"{len(judged)} cells beside published ones: {count['agrees']} agree, {count['intervals overlap']} more overlap, "
        f"{count['differs']} differ; {len(known) - len(judged)} published ones were not run."
    ]
    differing = [entry for entry in judged if entry.verdict.word == "differs"]
    for row in dict.fromkeys(entry.row for entry in differing):
        words = [f"{entry.column} by {entry.verdict.difference:+.1f}" for entry in differing if entry.row == row]
        lines.append(f"{row} differs: {', '.join(words)}. {explained.get(row, 'No experiment explains this.')}")
    return lines


def diverged(outcome: Outcome) -> str:
    """The runs that have no end."""
    gone = [f"{method} {setting}".strip() for (method, setting), rows in outcome.finals.items() if not rows]
    return f"diverged: {', '.join(gone)}" if gone else ""


def as_object(entry: Entry, known: Claims) -> dict[str, Any]:
    """For machines; without a verdict where nothing was published."""
    told: dict[str, Any] = {"row": entry.row, "column": entry.column, "judged": entry.judged, "bytes_up": entry.bytes_up}
    for name, values in (("last", entry.last), ("best", entry.best)):
        told[name] = {"mean": float(values.mean()), "deviation": float(values.std()), "seeds": values.tolist()}
    told["late"] = [float(entry.late.min()), float(entry.late.max())]
    if not entry.verdict.word:
        return told
    published = [
        {"source": claim.source, "mean": claim.mean, "spread": claim.spread} for claim in known[entry.row, entry.column]
    ]
    verdict, difference, allowed = entry.verdict
    return told | {"published": published, "difference": difference, "allowed": allowed, "verdict": verdict}


def comma_separated(entries: list[Entry], known: Claims) -> str:
    """A line for each cell."""
    lines = ["method,column,last,last_deviation,best,best_deviation,bytes_up_a_client,published,difference,verdict"]
    for entry in entries:
        claims, verdict = known.get((entry.row, entry.column), []), entry.verdict
        ours = [f"{f:.2f}" for values in (entry.last, entry.best) for f in (values.mean(), values.std())]
        theirs = [" / ".join(f"{claim.mean:.2f}" for claim in claims), f"{verdict.difference:.2f}" if verdict.word else ""]
        lines.append(",".join([f'"{entry.row}"', f'"{entry.column}"', *ours, f"{entry.bytes_up:.0f}", *theirs, verdict.word]))
    return "\n".join(lines) + "\n"
