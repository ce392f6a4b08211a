"""One statement, put to the test; and what that test could have refuted."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """`holds`: the measurement does not refute the statement (statistical error of three or four deviations allowed for)."""

    statement: str
    equation: str  # of docs/theory.md
    measured: float
    bound: float
    holds: bool
    how: str
    refutes: str  # which wrong constants this row would have noticed, and which not


def at_most(statement: str, equation: str, measured: float, bound: float, how: str, *, slack: float = 0.0) -> Row:
    """measured <= bound, up to `slack` times the bound. Notices bounds that are too small, never one that is too large."""
    share = measured / (1 + slack) / bound
    words = f"a bound below {share:.2g} of this one; no larger one"
    return Row(statement, equation, float(measured), float(bound), bool(measured <= bound * (1 + slack)), how, words)


def attained(statement: str, equation: str, measured: float, value: float, how: str, *, slack: float) -> Row:
    """measured = value, up to `slack` times the value: notices constants that are too large and too small alike."""
    holds = bool(abs(measured - value) <= slack * abs(value))
    return Row(statement, equation, float(measured), float(value), holds, how, f"a value {100 * slack:.2g} % off, either way")


def exceeds(statement: str, equation: str, measured: float, wrong: float, how: str) -> Row:
    """measured > wrong: a bound with a mistake in it is seen to fail, so the row with the right bound notices that mistake."""
    words = "this mistake in the rows above" if measured > wrong else "nothing: the mistake goes unnoticed"
    return Row(statement, equation, float(measured), float(wrong), bool(measured > wrong), how, words)
