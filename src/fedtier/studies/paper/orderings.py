"""Which of the paper's orderings hold here, in words: differences paired by seed, with their 95 % interval.

"holds": the same sign as in the paper, and the interval does not include 0. "reversed": the other sign, likewise.
"uncertain": the interval includes 0, or there are too few seeds for one. "not published": the paper lacks one of the two
numbers, so there is nothing to hold or to reverse.

An ordering of the paper counts once: where several of our rows stand for one of the paper's, the first row is the paper's
method and the others are told apart from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...errors import require
from ...experiments.outcomes import Interval, Outcome, interval, values

VERDICTS = ("holds", "reversed", "uncertain", "not measured", "not published")


class Published(NamedTuple):
    """The table [paper] of a comparison file."""

    source: str
    rows: dict[str, str]  # our label -> the paper's
    above: list[tuple[str, str]]  # pairs of our labels
    falls: list[str]  # our labels
    accuracy: dict[str, dict[str, float]]  # setting -> the paper's label -> per cent

    def of(self, method: str, setting: str) -> float | None:
        return self.accuracy.get(setting, {}).get(self.rows.get(method, ""))


class Ordering(NamedTuple):
    row: str  # the first of the two
    words: str  # what is compared
    paper: float  # points by which the first is above the second
    here: Interval
    verdict: str
    published: tuple[str, ...] = ()  # the paper's rows and settings that are compared

    def sentence(self) -> str:
        if self.verdict == "not published":
            return f"{self.words}: not in the paper"
        paper = f"paper {'yes' if self.paper > 0 else 'no'} ({self.paper:+.2f})"
        if self.verdict == "not measured":
            return f"{self.words}: {paper}, not measured here"
        half = "" if math.isnan(self.here.half) else f" ± {self.here.half:.2f}"
        return f"{self.words}: {paper}, here {self.here.mean:+.2f}{half}: {self.verdict}"


def published(table: dict[str, Any], methods: Sequence[str], settings: Sequence[str]) -> Published:
    """The checked table; every name in it must be a row or a setting of the comparison."""
    claims = table["claims"]
    for label in [*table["rows"], *(label for pair in claims["above"] for label in pair), *claims["falls"]]:
        require(label in methods, "paper", label, "is no method of this file", f"known: {', '.join(methods)}")
    for label in table["accuracy"]:
        require(label in settings, "paper.accuracy", label, "is no setting of this file", f"known: {', '.join(settings)}")
    above = [(upper, lower) for upper, lower in claims["above"]]
    return Published(table["source"], table["rows"], above, claims["falls"], table["accuracy"])


def orderings(outcome: Outcome, paper: Published) -> list[Ordering]:
    """Every claim about the cells of the outcome."""
    settings = list(dict.fromkeys(setting for _, setting in outcome.finals))
    found = []
    for upper, lower in paper.above:
        for setting in settings:
            if _has(outcome, upper, setting) and _has(outcome, lower, setting):
                words = f"{upper} above {lower} on {setting}"
                found.append(_judged(words, outcome, paper, (upper, setting), (lower, setting)))
    for method in paper.falls:
        for before, after in _steps(settings):
            if _has(outcome, method, before) and _has(outcome, method, after):
                words = f"{method} above itself at {_rest(after)}, on {before}"
                found.append(_judged(words, outcome, paper, (method, before), (method, after)))
    return found


def summary(found: Sequence[Ordering]) -> list[str]:
    """How many hold: of the paper's orderings, each once, and row by row."""
    once = {ordering.published: ordering for ordering in reversed(found)}  # the first that stands for it
    rows = dict.fromkeys(ordering.row for ordering in found)
    return [
        f"orderings of the paper: {_counted([*once.values()])}",
        *(f"{row}: {_counted([ordering for ordering in found if ordering.row == row])}" for row in rows),
    ]


def _counted(found: Sequence[Ordering]) -> str:
    counts = Counter(ordering.verdict for ordering in found)
    parts = [f"{counts[verdict]} {verdict.replace('holds', 'hold')}" for verdict in VERDICTS if counts[verdict]]
    return f"{len(found)}" + (f": {', '.join(parts)}" if parts else "")


def _judged(words: str, outcome: Outcome, paper: Published, first: tuple[str, str], second: tuple[str, str]) -> Ordering:
    upper, lower = paper.of(*first), paper.of(*second)
    theirs = math.nan if upper is None or lower is None else upper - lower
    here = difference(outcome, first, second)
    if math.isnan(theirs):
        verdict = "not published"
    elif math.isnan(here.mean):
        verdict = "not measured"
    elif math.isnan(here.half) or abs(here.mean) <= here.half:
        verdict = "uncertain"
    else:
        verdict = "holds" if (here.mean > 0) == (theirs > 0) else "reversed"
    names = (paper.rows.get(first[0], first[0]), first[1], paper.rows.get(second[0], second[0]), second[1])
    return Ordering(first[0], words, theirs, here, verdict, names)


def difference(outcome: Outcome, first: tuple[str, str], second: tuple[str, str]) -> Interval:
    """Global accuracy of one cell minus that of another, in points, seed by seed."""
    ours, theirs = (
        {row["seed"]: value for row, value in zip(rows, values(rows, "global"), strict=True)}
        for rows in (outcome.finals[first], outcome.finals[second])
    )
    return interval(np.asarray([ours[seed] - theirs[seed] for seed in ours if seed in theirs]))


def _has(outcome: Outcome, method: str, setting: str) -> bool:
    return (method, setting) in outcome.finals


def _steps(settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Neighbouring settings of the same data set, the first word of their label."""
    for before, after in pairwise(settings):
        if before.split()[0] == after.split()[0]:
            yield before, after


def _rest(setting: str) -> str:
    return setting.partition(" ")[2]
