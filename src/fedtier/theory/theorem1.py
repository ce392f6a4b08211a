"""Theorem 1, with the gap in its proof closed: equations (17) to (23) of docs/theory.md.

F = f1 + mean_i (f2(., y_i(.)))_eta is L-smooth, L = L1 + mean_i L0_imp,i n E|v_1|/eta. One round with gamma <= 1/(4 L):

    gamma_r/4 E|grad F(x_r)|^2 <= E F(x_r) - E F(x_{r+1}) + gamma_r/2 b_r + L gamma_r^2 (V + D_r)                  (18)
    V = n mean L0_imp^2 / S + sigma^2/2,   b_r = n w_r/eta^2,   D_r = n^2 w_r/eta^2,   w_r = mean_i L0_y,i^2 e_{i,r}

The three ways to sum (18) that hold, and the paper's, which divides by gamma_r first and then telescopes:

    `weighted`   r* drawn in proportion to gamma_r                       (19)   log R/sqrt(R) for gamma_r = c/sqrt(r+1)
    `constant`   gamma = c/sqrt(R), r* uniform                           (20)   1/sqrt(R)
    `uniform`    gamma_r falling, r* uniform, E F(x_r) bounded by (18)   (21)   log R/sqrt(R)
    `paper`      (|F(x_0)| + |F_*|)/gamma_{R-1} in place of the sum      (22)   1/sqrt(R), not proven
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, sqrt
from typing import NamedTuple

import numpy as np

from ..errors import not_negative, positive, require, whole
from .constants import Constants
from .sphere import cohort_variance, paper_smoothness, smoothness

Errors = float | np.ndarray  # a number for all rounds, or one a round, [R]


class Landscape(NamedTuple):
    """What a descent step needs to know of F. Build it with `landscape`."""

    n: int
    eta: float
    L: float  # Lipschitz constant of grad F
    variance: float  # V

    def step_limit(self) -> float:
        """gamma <= 1/(4 L), equation (17); with the paper's rounding eta/(4 (eta L1 + L0_imp sqrt n))."""
        return inf if self.L == 0 else 1 / (4 * self.L)

    def bias(self, felt: Errors) -> Errors:
        """b_r of (18); `felt` is w_r, a number or an array."""
        return self.n * felt / self.eta**2

    def disturbance(self, felt: Errors) -> Errors:
        """D_r of (18): n times the bias."""
        return self.n * self.bias(felt)


def landscape(constants: Constants, eta: float, cohort: float | int, directions: int = 1) -> Landscape:
    """F for these constants; `cohort` is S, or 1/E(1/S) where replies get lost."""
    positive("eta", eta)
    L = constants.L1.value + smoothness(constants.mean_L0().value, constants.n, eta)
    V = cohort_variance(constants.mean_square_L0().value, constants.n, cohort, directions) + constants.sigma.value**2 / 2
    return Landscape(constants.n, eta, L, V)


def felt_error(constants: Constants, errors: Sequence[Errors] | np.ndarray) -> np.ndarray:
    """w = mean_i L0_y,i^2 e_i: the clients' errors as the server feels them. `errors` [m] or [m, R] gives a number or [R]."""
    felt = [client.L0_y.value**2 * np.asarray(e) for client, e in zip(constants.clients, errors, strict=True)]
    return np.asarray(np.mean(felt, axis=0))


def paper_step_limit(L1: float, L0: float, n: int, eta: float) -> float:
    """eta/(4 (eta L1 + L0 sqrt n)) as printed in the paper: up to 1.25 times smaller than ours."""
    return 1 / (4 * (L1 + paper_smoothness(L0, n, eta)))


class Bounds(NamedTuple):
    """Bounds on E|grad F(x_{r*})|^2 after R rounds; inf where a condition fails."""

    weighted: float  # (19), also bounds the running minimum
    uniform: float  # (21)
    paper: float  # (22): for comparison, not proven


def bounds(
    land: Landscape, gamma: Sequence[float] | np.ndarray, felt: Errors, gap: float, *, paper_gap: float | None = None
) -> Bounds:
    """Equations (19), (21), (22) for the steps gamma_0 .. gamma_{R-1} and w_r (`felt_error`; an array [R] or one number).

    `gap` bounds F(x_0) - F_*; `paper_gap` is |F(x_0)| + |F_*|. The sums are computed, not rounded up to logarithms.
    """
    g = np.asarray(gamma, dtype=np.float64)
    require(g.ndim == 1 and g.size > 0 and bool(np.all(g > 0)), "gamma", gamma, "must be a row of numbers above 0")
    not_negative("gap", gap)
    if not np.max(g) <= land.step_limit() * (1 + 1e-12):
        return Bounds(inf, inf, inf)
    w = np.broadcast_to(np.asarray(felt, dtype=np.float64), g.shape)
    b, noise = land.bias(w), land.L * (land.variance + land.disturbance(w))
    weighted = (4 * gap + 2 * np.sum(g * b) + 4 * np.sum(g**2 * noise)) / np.sum(g)
    rest = np.mean(2 * b + 4 * g * noise)  # (18) divided by gamma_r/4, without the telescope
    highest = gap + np.sum(g * b) / 2 + np.sum(g**2 * noise)  # sup_r E F(x_r) - F_*
    falling = bool(np.all(np.diff(g) <= 1e-12 * g[0]))
    uniform = 4 * highest / (g[-1] * g.size) + rest if falling else inf
    paper = 4 * (gap if paper_gap is None else paper_gap) / (g[-1] * g.size) + rest
    return Bounds(float(weighted), float(uniform), float(paper))


class Rate(NamedTuple):
    """Equation (20): E|grad F(x_{r*})|^2 <= (theta_1 + theta_2 + theta_3)/sqrt(R) + theta_4/R for gamma = c/sqrt(R)."""

    c: float
    theta_1: float  # 4 (F(x_0) - F_*)/c          the way to go
    theta_2: float  # 4 c L V                      the estimate's and the server's noise
    theta_3: float  # 4 n W/eta^2                  the bias of inexact solves
    theta_4: float  # 8 c L n^2 W/eta^2            their variance
    least: int  # R from which c/sqrt(R) <= 1/(4 L): no bound below it

    def bound(self, rounds: int) -> float:
        if rounds < self.least:
            return inf
        return (self.theta_1 + self.theta_2 + self.theta_3) / sqrt(rounds) + self.theta_4 / rounds

    def rounds_for(self, epsilon: float) -> float:
        """The least R with bound(R) <= epsilon, equation (23); a float because it is often astronomical."""
        positive("epsilon", epsilon)
        total = self.theta_1 + self.theta_2 + self.theta_3
        u = 2 * epsilon / (total + sqrt(total**2 + 4 * self.theta_4 * epsilon))  # theta_4 u^2 + total u = epsilon
        needed = 1 / u**2  # u = 1/sqrt(R)
        return float(max(self.least, ceil(needed * (1 - 1e-12)) if needed < 1e15 else needed))


def constant_rate(land: Landscape, gap: float, W: float, c: float | None = None) -> Rate:
    """Equation (20) for H_{i,r} = ceil(tau_i sqrt(r+1)) and W = mean_i L0_y,i^2 B_i/tau_i, B_i from (13): w_r <= W/sqrt(r+1).

    c = sqrt(gap/(L V)) makes theta_1 + theta_2 smallest and is the default.
    """
    not_negative("gap", gap)
    not_negative("W", W)
    if c is None:
        free = land.L * land.variance
        c = sqrt(gap / free) if gap > 0 and free > 0 else land.step_limit()
    positive("c", c)
    inexact = land.n * W / land.eta**2  # the mean over r of b_r is at most 2/sqrt(R) of it
    return Rate(
        c,
        4 * gap / c,
        4 * c * land.L * land.variance,
        4 * inexact,
        8 * c * land.L * land.n * inexact,
        max(1, ceil((4 * c * land.L) ** 2 * (1 - 1e-12))),
    )


def local_iterations(tau: float, rounds: float | int, power: float = 0.5) -> float:
    """K_i: client i's steps in both solves, 2 sum_r ceil(tau (r+1)^power), equation (23); above 10^6 rounds an upper bound."""
    positive("tau", tau)
    not_negative("power", power)
    if rounds <= 10**6:
        whole("rounds", int(rounds))
        r = np.arange(1, int(rounds) + 1, dtype=np.float64)
        return float(2 * np.sum(np.ceil(tau * r**power)))
    return 2 * (tau * ((rounds + 1) ** (power + 1) - 1) / (power + 1) + rounds)
