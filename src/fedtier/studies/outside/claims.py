"""What others published for a cell, and the rule that compares it with ours. All numbers are in per cent.

[[published]]
source = "who"
trials = 3                       # repetitions behind a { mean, deviation }
numbers."COLUMN" = { "ROW" = 68.2 }                              # one number
numbers."COLUMN" = { "ROW" = [93.5, 94.4, 91.5] }                # of each repetition
numbers."COLUMN" = { "ROW" = { mean = 80.41, deviation = 0.08 } }
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import require
from ...experiments.outcomes import Interval, interval
from .table import Published

POINTS = 1.5  # per cent: repetitions of these tables by their own authors differ by as much
RULE = (
    f"A cell agrees when our mean is within {POINTS} points of the mean of the published numbers, or within the spread of "
    "these where there are several; it overlaps (~) when the 95 % t intervals of both do; else it differs (!)."
)


class Claim(NamedTuple):
    """One number of one source."""

    source: str
    mean: float
    spread: float  # of its repetitions: largest less smallest, or their deviation; 0 where only one is known
    interval: Interval  # half is NaN where only one is known

    def told(self) -> str:
        return f"{self.mean:.1f}" if self.spread == 0 else f"{self.mean:.2f}±{self.spread:.2f}"


Claims = dict[tuple[str, str], list[Claim]]  # (row, column) -> of each source


def read_claims(entries: list[dict[str, Any]]) -> Claims:
    """The tables [[published]] of a file."""
    found: Claims = {}
    for entry in entries:
        for column, numbers in entry["numbers"].items():
            for row, given in numbers.items():
                found.setdefault((row, column), []).append(_claim(entry["source"], given, entry.get("trials", 1)))
    return found


def _claim(source: str, given: Any, trials: int) -> Claim:
    if isinstance(given, dict):
        require(trials > 1, "published.trials", trials, "must say how many repetitions have this deviation", "trials = 3")
        known = Published(given["mean"], given["deviation"])
        return Claim(source, known.mean, known.deviation, known.interval(trials))
    values = np.atleast_1d(np.asarray(given, float))
    return Claim(source, float(values.mean()), float(np.ptp(values)), interval(values))


class Verdict(NamedTuple):
    word: str  # "agrees", "intervals overlap", "differs"; "" where nothing was published
    difference: float  # ours less the mean of the published ones
    allowed: float  # by which they may differ

    @property
    def mark(self) -> str:
        return {"": "", "agrees": "", "intervals overlap": "~", "differs": "!"}[self.word]


UNKNOWN = Verdict("", float("nan"), float("nan"))  # nothing was published, or it is another set-up


def judge(ours: np.ndarray, claims: list[Claim]) -> Verdict:
    """By RULE; `ours` [seeds] in per cent."""
    if not claims or not len(ours):
        return UNKNOWN
    means = [claim.mean for claim in claims]
    allowed = max(POINTS, float(np.ptp(means)), *(claim.spread for claim in claims))
    difference = float(np.mean(ours) - np.mean(means))
    if abs(difference) <= allowed + 1e-9:
        return Verdict("agrees", difference, allowed)
    mine = interval(ours)
    overlap = any(abs(mine.mean - one.mean) <= np.nansum([mine.half, one.interval.half]) for one in claims)
    return Verdict("intervals overlap" if overlap else "differs", difference, allowed)
