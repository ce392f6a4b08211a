"""Theorem 1 with one source of error at a time: its bounds hold, and fail as soon as the term of that error is left out."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....theory import theorem1
from ....theory.theorem1 import Bounds, Landscape, Rate
from ..row import Row, at_most, attained, exceeds
from . import regimes
from .regimes import CONSTANT, FALLING, Outcome, Regime

if TYPE_CHECKING:  # loaded where a picture is drawn
    from matplotlib.axes import Axes

ROUNDS, SEEDS = 2000, 16
LENGTHS = (125, 1000)  # R of the step c/sqrt(R)
SLOW = 0.02  # of the largest step: the noise then is small beside the bias
LATE = 100  # the round from which a slope is fitted
ALLOWED = 0.2  # of a slope: the mean lags behind a falling step, and the fit has noise


class Parts(NamedTuple):
    """What the bounds (19) and (21) are made of, besides the steps."""

    land: Landscape
    felt: float  # w
    gap: float  # F(x_0) - F_*

    def bounds(self, gamma: np.ndarray) -> Bounds:
        return theorem1.bounds(self.land, gamma, self.felt, self.gap)


class Term(NamedTuple):
    name: str
    regime: Callable[[], Regime]  # where it is needed
    shape: str
    share: float  # of the largest step that Theorem 1 allows
    left_out: Callable[[Parts], Parts]


TERMS = (
    Term("V", regimes.estimate_noise, FALLING, 1.0, lambda parts: parts._replace(land=parts.land._replace(variance=0.0))),
    Term("V", regimes.server_noise, FALLING, 1.0, lambda parts: parts._replace(land=parts.land._replace(variance=0.0))),
    Term("b and D", regimes.solver_bias, CONSTANT, SLOW, lambda parts: parts._replace(felt=0.0)),
    Term("F(x_0) - F_*", regimes.far_start, FALLING, 1.0, lambda parts: parts._replace(gap=0.0)),
)


def terms(axes: Axes | None = None) -> list[Row]:
    """For every term: the mean of |grad F|^2 below (19) and (21) where it is needed, above both without it. Then the rates."""
    rows: list[Row] = []
    found = [(term, regime := term.regime(), measure(term, regime)) for term in TERMS]
    for term, regime, outcome in found:
        rows += term_rows(term, regime, outcome)
    _, noisy, falling = found[0]
    rate = _rate(noisy)
    means = [float(regimes.run(noisy, CONSTANT, rate.c / sqrt(R), rounds=R, seeds=SEEDS).squares.mean()) for R in LENGTHS]
    if axes is not None:
        for _, regime, outcome in found:
            _draw(axes, regime, outcome)
        axes.loglog(LENGTHS, means, "ko", label="step c/sqrt(R), the estimate's noise: mean")
        axes.loglog(LENGTHS, [rate.bound(R) for R in LENGTHS], "k--", label="bound (20)")
        axes.set(xlabel="rounds R", ylabel="|grad F|², drawn like gamma", title="Theorem 1, one source of error at a time")
        axes.set_ylim(bottom=1e-6)
        axes.legend(fontsize=6)
    return [*rows, falling_row(falling), *constant_rows(rate, means)]


def measure(term: Term, regime: Regime) -> Outcome:
    return regimes.run(regime, term.shape, term.share * regime.land().step_limit(), rounds=ROUNDS, seeds=SEEDS)


def term_rows(term: Term, regime: Regime, outcome: Outcome) -> list[Row]:
    """Two bounds, and both without the term."""
    parts, means = _parts(regime, outcome), _means(outcome)
    marks, last = _marks(outcome), len(outcome.squares)
    ratios = [
        max(_over(float(mean[k - 1]), bound) for k in marks for bound in [parts.bounds(outcome.gamma[:k])[j]])
        for j, mean in enumerate(means)
    ]
    without, how = term.left_out(parts).bounds(outcome.gamma), f"largest ratio up to R = {last}, {SEEDS} seeds"
    control = exceeds(
        f"{regime.name} alone, (19) and (21) without {term.name}: refuted", "(19)", means[0][-1], without.weighted,
        f"R = {last}; the numbers are those of (19)",
    )  # fmt: skip
    return [
        at_most(f"Theorem 1, {regime.name} alone, r* drawn like gamma_r: mean over its bound", "(19)", ratios[0], 1.0, how),
        at_most(f"Theorem 1, {regime.name} alone, r* uniform: mean over its bound", "(21)", ratios[1], 1.0, how),
        control._replace(holds=control.holds and bool(means[1][-1] > without.uniform)),
    ]


def falling_row(outcome: Outcome) -> Row:
    late = np.arange(LATE, len(outcome.squares))
    slope = float(np.polyfit(np.log(late + 1), np.log(outcome.squares[LATE:]), 1)[0])
    how = f"step c/sqrt(r+1), the estimate's noise alone, from round {LATE} on"
    return attained("slope of |grad F(x_r)|^2 in log r", "(19)", slope, -0.5, how, slack=ALLOWED)


def constant_rows(rate: Rate, means: list[float]) -> list[Row]:
    """(20) for steps c/sqrt(R): its bound, the bound without theta_2, the power of R."""
    ratio = max(_over(mean, rate.bound(R)) for mean, R in zip(means, LENGTHS, strict=True))
    slope = float(np.polyfit(np.log(LENGTHS), np.log(means), 1)[0])
    how = f"the estimate's noise alone, R = {LENGTHS[0]} .. {LENGTHS[-1]}"
    without = rate._replace(theta_2=0.0).bound(LENGTHS[-1])
    return [
        at_most("Theorem 1, step c/sqrt(R): mean over its bound", "(20)", ratio, 1.0, how),
        exceeds("the same without theta_2: refuted", "(20)", means[-1], without, f"R = {LENGTHS[-1]}"),
        attained("slope of the mean in log R, step c/sqrt(R)", "(20)", slope, -0.5, how, slack=ALLOWED),
    ]


def _rate(regime: Regime) -> Rate:
    """(20) with the largest c that the shortest run allows."""
    land = regime.land()
    return theorem1.constant_rate(land, regime.gap, 0.0, land.step_limit() * sqrt(LENGTHS[0]))


def _parts(regime: Regime, outcome: Outcome) -> Parts:
    constants = regime.place.constants
    felt = float(theorem1.felt_error(constants, [outcome.error] * len(constants.clients)))
    return Parts(regime.land(), felt, regime.gap)


def _means(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """|grad F|^2 over the first R rounds, drawn like gamma and uniformly, for every R."""
    gamma, squares = outcome.gamma, outcome.squares
    return np.cumsum(gamma * squares) / np.cumsum(gamma), np.cumsum(squares) / np.arange(1, len(squares) + 1)


def _marks(outcome: Outcome) -> np.ndarray:
    return np.unique(np.geomspace(1, len(outcome.squares), 25).astype(int))


def _over(mean: float, bound: float) -> float:
    return float(mean / bound) if bound > 0 else inf if mean > 0 else 0.0


def _draw(axes: Axes, regime: Regime, outcome: Outcome) -> None:
    parts, marks, mean = _parts(regime, outcome), _marks(outcome), _means(outcome)[0]
    (line,) = axes.loglog(marks[1:], mean[marks[1:] - 1], label=regime.name)  # round 0 is the minimum itself
    bounds = [parts.bounds(outcome.gamma[:k]).weighted for k in marks]
    axes.loglog(marks, bounds, "--", color=line.get_color(), label=f"{regime.name}: bound (19)")
