"""Theorem 2: which pairs of sequences make |grad F(x_r)| -> 0 almost surely. Equations (24) and (25) of docs/theory.md.

    sum gamma_r = inf        sum gamma_r^2 < inf        sum gamma_r e_r < inf                                       (24)

with e_r the error of the local solves in round r. For gamma_r ~ r^-a, H_r ~ r^p and e ~ H^-k the three read

    a <= 1,     a > 1/2,     a + p k > 1                                                                            (25)

where k = 1 for a client step c/(t + Gamma) with c mu_h > 1/2 (see `local.decay_exponent`), 0 for a constant one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import not_negative
from ..schedules import Schedule, StepSize, as_schedule, inverse, inverse_sqrt


class Shape(NamedTuple):
    """A sequence that falls like (r + 1)^-exponent."""

    text: str
    exponent: float
    known: bool  # False: fitted to a function's values, so nothing is proven
    scale: float = float("nan")  # c
    offset: float = 1.0


class Condition(NamedTuple):
    """One of the three conditions of Theorem 2, and whether it holds."""

    statement: str
    holds: bool | None  # None: cannot be decided from finitely many values
    why: str


class Verdict(NamedTuple):
    """The three conditions of Theorem 2 for one pair of schedules."""

    not_summable: Condition
    square_summable: Condition
    errors_summable: Condition

    @property
    def holds(self) -> bool | None:
        parts = [part.holds for part in self]
        return False if False in parts else None if None in parts else True


def server_shape(value: StepSize) -> Shape:
    """The shape of gamma_r: a number c means c/sqrt(r+1), as everywhere in fedtier."""
    return _shape("server_lr", value, inverse_sqrt, "inverse_sqrt")


def client_shape(value: StepSize) -> Shape:
    """The shape of tilde gamma_t: a number c means c/(t+1)."""
    return _shape("client_lr", value, inverse, "inverse")


_EXPONENTS = {"constant": 0.0, "inverse_sqrt": 0.5, "inverse": 1.0}


def _shape(name: str, value: StepSize, default: Callable[[float], Schedule], default_name: str) -> Shape:
    schedule = as_schedule(name, value, default)  # refuses what is no schedule
    if callable(value):
        return fitted(schedule)
    text = f"{default_name}({value:g})" if isinstance(value, int | float) else value.strip()
    shape, arguments = re.fullmatch(r"(\w+)\s*\(([^()]*)\)", text).groups()  # type: ignore[union-attr]  # as_schedule has read it
    numbers = [float(part) for part in arguments.split(",")]
    exponent = numbers[1] if shape == "power" else _EXPONENTS[shape]
    offset = numbers[1] if shape == "inverse" and len(numbers) > 1 else 1.0
    return Shape(text, exponent, True, numbers[0], offset)


def fitted(schedule: Schedule, first: int = 2**10, last: int = 2**20) -> Shape:
    """The exponent that a function's values show between two counters: a hint, never a proof."""
    r = np.array([first, last], dtype=np.float64)
    a, b = (float(schedule(x)) for x in r)
    if not (a > 0 and b > 0):
        return Shape("a function", float("inf"), False)
    return Shape("a function", float(-np.log(b / a) / np.log((r[1] + 1) / (r[0] + 1))), False, b * last)


def decide(server: Shape, growth: float, local_exponent: float = 1.0) -> Verdict:
    """The three conditions (24) for gamma_r ~ r^-a, H_r ~ r^growth and a local error ~ H^-local_exponent."""
    not_negative("growth", growth)
    not_negative("local_exponent", local_exponent)
    a, joint = server.exponent, server.exponent + growth * local_exponent

    def say(statement: str, holds: bool, why: str) -> Condition:
        if server.known:
            return Condition(statement, holds, why)
        guess = "likely" if holds else "unlikely"
        return Condition(statement, None, f"{guess}: {why}; read off from r = 2^10 to 2^20, and a sum depends on all terms")

    return Verdict(
        say("sum gamma_r = inf", a <= 1, f"gamma_r ~ r^-{a:.3g}; needs an exponent of at most 1"),
        say("sum gamma_r^2 < inf", a > 0.5, f"gamma_r^2 ~ r^-{2 * a:.3g}; needs an exponent above 1"),
        say(
            "sum gamma_r e_r < inf",
            joint > 1,
            f"gamma_r e_r ~ r^-{joint:.3g} (H_r ~ r^{growth:g}, e ~ H^-{local_exponent:.3g}); needs an exponent above 1",
        ),
    )


def guaranteed_exponent(growth: float, local_exponent: float = 1.0) -> float | None:
    """An exponent for `schedules.power` that satisfies (24): the middle of (max(1/2, 1 - growth k), 1]; None if empty."""
    low = max(0.5, 1 - growth * local_exponent)
    return None if low >= 1 else (low + 1) / 2
