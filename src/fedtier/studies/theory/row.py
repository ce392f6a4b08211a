"""One statement, put to the test."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """`holds`: the measurement does not refute the bound (statistical error of three or four deviations allowed for)."""

    statement: str
    equation: str  # of docs/theory.md
    measured: float
    bound: float
    holds: bool
    how: str
