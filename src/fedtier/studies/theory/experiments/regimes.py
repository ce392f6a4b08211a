"""Places where one term of Theorem 1's bound is needed: started at the minimum, pushed by one source of error alone.

Two clients at +-distance on the first axis pull with the same strength, so x = 0, the server's mean, is the minimum of F and
F(x_0) - F_* = 0. Around it the balls do not bind and F is a quadratic; farther out |x|^2/2 alone exceeds F(0). What is left of
the bounds (19) to (21) is the term of the error that is switched on; without that term they are 0, or too small.

    estimate_noise   one client a round, one direction, exact solves, server rows all equal     needs n mean L0_imp^2/S
    server_noise     no coupling, server rows that differ                                       needs sigma^2/2
    solver_bias      a solver whose error grows with the first coordinate, as in `inexact`       needs b_r
    far_start        started away from the minimum, hardly any noise                             needs F(x_0) - F_*
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from ....federation import View
from ....methods import descent, projected_sgd, sphere, zo_hfl
from ....theory import theorem1
from ....theory.theorem1 import Landscape
from .arena import Arena, arena
from .paths import gradient_squares, path

N = 10
LEAN = 0.1  # the worst solver's error over the first coordinate
FALLING, CONSTANT = "inverse_sqrt", "constant"


class Regime(NamedTuple):
    """An experiment before it is run."""

    name: str
    place: Arena
    eta: float
    cohort: int
    start: np.ndarray  # x_0
    gap: float  # F(x_0) - F_*
    worst: bool = False  # is the solver the worst one?

    def land(self) -> Landscape:
        return theorem1.landscape(self.place.constants, self.eta, self.cohort)


class Outcome(NamedTuple):
    squares: np.ndarray  # |grad F(x_r)|^2, mean over seeds [R]
    gamma: np.ndarray  # [R]
    error: float  # e, of every solve in every round


def estimate_noise() -> Regime:
    return _regime("the estimate's noise", penalty=0.04, cohort=1)


def server_noise() -> Regime:
    return _regime("the server's noise", penalty=0.0, server=1.0)


def solver_bias() -> Regime:
    found = _regime("the bias of the solves", penalty=0.1, proximity=9.0, distance=50.0, eta=10.0, room=1.2)
    return found._replace(worst=True)


def far_start() -> Regime:
    found = _regime("the distance to the minimum", penalty=0.001, room=1.6)
    x = np.full(N, 5 / sqrt(N))
    return found._replace(start=x, gap=found.place.form.value(x) - found.place.form.value(0 * x))  # F is f + a constant here


def _regime(
    name: str, *, penalty: float, proximity: float = 1.0, distance: float = 10.0, eta: float = 3.0, cohort: int = 2,
    server: float = 0.0, room: float = 1.0,
) -> Regime:  # fmt: skip
    """`room` widens the balls: for the worst solver, which steps out, and for a start that is farther from one client."""
    centres = np.zeros((3, N))
    centres[1:, 0] = distance, -distance
    shrink = 1 / (1 + proximity)  # s, of curvature 1
    around = shrink * sqrt(penalty * (distance**2 + eta**2))  # beyond it |x|^2/2 > F(0)
    radius = room * shrink * (distance + eta + around)
    place = arena(
        N, 2, radius=radius, penalty=penalty, proximity=proximity, centres=centres, alike=True, noise=0.0, server_noise=server
    )
    return Regime(name, place, eta, cohort, place.form.a, 0.0)


def run(regime: Regime, shape: str, c: float, *, rounds: int, seeds: int) -> Outcome:
    """|grad F|^2 on the path of ZO-HFL with the server's step c/sqrt(r + 1), or c, by `shape`."""
    place = regime.place
    s = 1 / (1 + place.form.proximity)  # h is round: a step of this size is the solution, cut to the ball where it binds
    method = zo_hfl(
        place.problem._replace(solve=_worst_solver if regime.worst else None),
        estimator=sphere(smoothing=regime.eta),
        local=projected_sgd(s, batch=1),
        server=descent(f"{shape}({c})", batch=8),
    )
    points = path(
        method, place.federation, regime.start, rounds=rounds, seeds=seeds, tau=1.0, cohort=regime.cohort,
        steps=np.ones(rounds, int),
    )  # fmt: skip
    gamma = c / np.sqrt(np.arange(rounds) + 1.0) if shape == FALLING else np.full(rounds, c)
    # The worst solver's error at x + eta v is LEAN (x_1 + eta v_1), and E v_1^2 = 1/n.
    error = LEAN**2 * (float(np.mean(points[..., 0] ** 2, axis=0).max()) + regime.eta**2 / N) if regime.worst else 0.0
    return Outcome(gradient_squares(place, points, regime.eta).mean(axis=0), gamma, error)


def _worst_solver(p: Array, start: Array, view: View, spec: PyTree, steps: ArrayLike, key: Key[Array, ""]) -> Array:
    """y(p), moved away from p in proportion to p_1: f2 then grows with p_1, which is a constant error of its gradient."""
    y = p + 0.1 * (view.arrays[view.index[view.start]] - p)  # s = 1/(1 + 9); a client's rows are all equal
    return y + LEAN * p[0] * (y - p) / jnp.linalg.norm(y - p)
