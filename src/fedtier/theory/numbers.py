"""A number that says how far to trust it: exact, a proven bound, or an estimate.

exact       the smallest constant that does the job, from a closed form
bound       proven, perhaps larger than needed (smaller, for a strong convexity constant)
estimate    measured at sampled points: it can be refuted, not proven
absent      the assumption fails: no finite constant exists (value = inf; for strong convexity the curvature that was seen,
            0 or below)
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Label = Literal["exact", "bound", "estimate", "absent"]
_ORDER: tuple[Label, ...] = ("exact", "bound", "estimate", "absent")


class Number(NamedTuple):
    value: float
    label: Label
    equation: str  # where it comes from: "(6)" is an equation of docs/theory.md
    note: str = ""

    def __float__(self) -> float:
        return float(self.value)


def exact(value: float | int, equation: str, note: str = "") -> Number:
    return Number(float(value), "exact", equation, note)


def bound(value: float | int, equation: str, note: str = "") -> Number:
    return Number(float(value), "bound", equation, note)


def estimate(value: float | int, equation: str, note: str = "") -> Number:
    return Number(float(value), "estimate", equation, note)


def absent(value: float | int, equation: str, note: str) -> Number:
    return Number(float(value), "absent", equation, note)


def weakest(*numbers: Number, at_least: Label = "exact") -> Label:
    """The label of a result computed from `numbers`: no better than its worst ingredient."""
    return _ORDER[max(_ORDER.index(label) for label in (at_least, *(number.label for number in numbers)))]


def derived(value: float | int, equation: str, *numbers: Number, at_least: Label = "bound", note: str = "") -> Number:
    """A number computed from others by an inequality (`at_least` "bound") or an identity ("exact")."""
    return Number(float(value), weakest(*numbers, at_least=at_least), equation, note)
