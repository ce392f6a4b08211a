"""How near Algorithm 2 comes to y_i(x) in H steps: equations (12) to (14) of docs/theory.md (the paper's Proposition 1).

    e_{t+1} <= q_t^2 e_t + a_t^2 sigma^2,     q_t = max(|1 - a_t mu|, |1 - a_t L|),   e_t = E|y_t - y(x)|^2          (12)
    a_t = c/(t + Gamma), Gamma >= c (mu + L)/2, D = 2 c mu - 1 - (c mu)^2/Gamma > 0:
        e_H <= B/(H + Gamma),     B = max(Gamma e_0, c^2 sigma^2 / D)                                               (13)
    H = ceil(B/error - Gamma) steps reach the error                                                               (14)

(12) holds for every step size, also for those that are too large at first; (13) is where the slope -1 comes from.
"""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

import numpy as np

from ..errors import not_negative, positive, require, whole
from ..schedules import Schedule


class LocalProblem(NamedTuple):
    """What Algorithm 2 needs to know of one client. Floats; `constants.ClientConstants` says where they come from."""

    mu: float  # strong convexity of h
    L: float  # Lipschitz constant of grad_y h
    variance: float  # sigma_i^2, of a minibatch gradient
    start: float  # bounds e_0 = E|y_0 - y(x)|^2

    def check(self) -> LocalProblem:
        positive("mu", self.mu, "Algorithm 2's guarantee needs a strongly convex h: proximity > 0 does it")
        not_negative("variance", self.variance)
        not_negative("start", self.start)
        require(
            self.mu * (1 - 1e-12) <= self.L,
            "L",
            self.L,
            f"must be at least mu = {self.mu:g}",
            "a gradient changes at least as fast as the curvature says",
        )
        return self


class LocalBound(NamedTuple):
    """Equation (13): e_H <= constant/(H + offset) for every H >= 0."""

    constant: float  # B
    offset: float  # Gamma

    def error(self, steps: float | int) -> float:
        return self.constant / (steps + self.offset)

    def steps_for(self, error: float) -> int:
        """The least H that this bound needs for `error`, equation (14)."""
        positive("error", error)
        return max(0, ceil(self.constant / error - self.offset))


def contraction(step: np.ndarray, mu: float, L: float) -> np.ndarray:
    """q_t of (12): the Lipschitz constant of y -> y - a grad h(y)."""
    return np.maximum(np.abs(1 - step * mu), np.abs(1 - step * L))


def recursion(schedule: Schedule, client: LocalProblem, steps: int) -> np.ndarray:
    """The bound (12) on e_0 .. e_H, [H + 1]. Costs H operations on the host; inf where it overflows."""
    mu, L, variance, start = client.check()
    whole("steps", steps, 0)
    a = np.broadcast_to(np.asarray(schedule(np.arange(steps, dtype=np.float64)), dtype=np.float64), (steps,))
    shrink, noise = contraction(a, mu, L) ** 2, a**2 * variance
    bounds = np.empty(steps + 1)
    bounds[0] = start
    with np.errstate(over="ignore"):
        for t in range(steps):
            bounds[t + 1] = shrink[t] * bounds[t] + noise[t]
    return bounds


def decay_constant(c: float, offset: float, client: LocalProblem) -> LocalBound:
    """Equation (13). Refuses step sizes that it does not cover; `recursion` covers every one."""
    mu, L, variance, start = client.check()
    positive("c", c)
    positive("offset", offset)
    slack = 2 * c * mu - 1 - (c * mu) ** 2 / offset
    least = c * (mu + L) / 2
    require(
        offset >= least * (1 - 1e-12),
        "offset",
        offset,
        f"must be at least c (mu + L)/2 = {least:g}",
        "the first steps would overshoot",
    )
    require(
        slack > 0,
        "c",
        c,
        f"must give 2 c mu - 1 - (c mu)^2/offset > 0, not {slack:g}",
        f"take c = {1 / mu:g}, and an offset of at least 2",
    )
    return LocalBound(max(offset * start, c**2 * variance / slack), offset)


def guaranteed(mu: float, L: float) -> tuple[float, float]:
    """(c, Gamma) for `schedules.inverse` that satisfy (13): c = 1/mu is best for large H, Gamma = max(2, (1 + L/mu)/2)."""
    LocalProblem(mu, L, 0.0, 0.0).check()
    return 1 / mu, max(2.0, (1 + L / mu) / 2)


def decay_exponent(c: float, mu: float, a: float = 1.0) -> float:
    """k such that e_H falls like H^-k under a_t ~ c/t^a: min(1, 2 c mu) at a = 1, a below, 0 above and at 0.

    At a = 1 and below c = 1/(2 mu) the steps shrink before they arrive: the usual reason why a client does not converge. Above
    a = 1 they stop on the way, and a constant step has a floor of noise.
    """
    positive("c", c)
    positive("mu", mu)
    not_negative("a", a)
    if a == 1:
        return min(1.0, 2 * c * mu)
    return a if a < 1 else 0.0


def steps_for(schedule: Schedule, client: LocalProblem, error: float, most: int) -> float:
    """The least H up to `most` whose bound (12) is at or below `error`; inf when there is none."""
    positive("error", error)
    below = np.flatnonzero(recursion(schedule, client, most) <= error)
    return float(below[0]) if below.size else inf
