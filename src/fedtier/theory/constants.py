"""The constants that the theorems speak of, for one problem: equation (2) of docs/theory.md.

L1        Lipschitz constant of grad f1                       sigma    E|grad f1(x, batch) - grad f1(x)|^2 <= sigma^2
mu_h      strong convexity of h_i(x, .)                       sigma_i  the same for grad_y h_i
L_h, L_x  Lipschitz constants of grad_y h_i in y and in x     L0_y, L0_x  Lipschitz constants of f2 in y and in x
L0_imp    Lipschitz constant of x -> f2(x, y_i(x))            start    |x - y_i(x)| <= start: Algorithm 2 starts at x
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Real

from ..errors import not_negative, positive, require, whole
from ..problem.sets import Dependence
from .lipschitz import Motion, implicit_lipschitz, motion, proximal_motion
from .local import LocalProblem
from .numbers import Number, absent, bound, derived, exact

Rows = Real[Array | np.ndarray, "N ..."]  # a client's inputs, one row each

LARGE = 1000  # rows of a matrix whose eigenvalue is bounded instead of computed


class ClientConstants(NamedTuple):
    """The constants of one client: of its loss h_i and of the coupling f2."""

    mu_h: Number
    L_h: Number
    L_x: Number
    sigma: Number
    L0_y: Number
    L0_x: Number
    L0_imp: Number
    motion: Motion  # Lipschitz constants of y_i(.) and of x - y_i(x)
    start: Number

    def local(self) -> LocalProblem:
        """What Algorithm 2's bounds need."""
        return LocalProblem(self.mu_h.value, self.L_h.value, self.sigma.value**2, self.start.value**2)


class Constants(NamedTuple):
    """The constants of a problem: the server's, and each client's."""

    n: int
    L1: Number
    sigma: Number
    clients: tuple[ClientConstants, ...]

    def mean_L0(self) -> Number:
        """mean_i L0_imp,i: the Lipschitz constant of the mean of the implicit functions."""
        return self._mean("L0_imp", 1, "(6)")

    def mean_square_L0(self) -> Number:
        """mean_i L0_imp,i^2, which the variance of the estimate needs, equation (11)."""
        return self._mean("L0_imp", 2, "(6)")

    def _mean(self, field: str, power: int, equation: str) -> Number:
        numbers = [getattr(client, field) for client in self.clients]
        value = float(np.mean([number.value**power for number in numbers]))
        if not np.isfinite(value):
            worst = next(number for number in numbers if not np.isfinite(number.value))
            return absent(inf, equation, worst.note)
        return derived(value, equation, *numbers, at_least="exact" if len(numbers) == 1 else "bound")


class CouplingConstants(NamedTuple):
    """Lipschitz constants of f2 where Algorithm 2 can take it, equation (28)."""

    L0_y: Number
    L0_x: Number
    of_difference: bool  # does f2 depend on x - y alone?


def quadratic_coupling(penalty: float, weight: float, radius: float = inf) -> CouplingConstants:
    """penalty/2 weight |x - y|^2 for |x - y| <= radius: L0 = penalty weight radius in each argument; none without a ball."""
    not_negative("penalty", penalty)
    not_negative("weight", weight)
    if penalty * weight == 0:
        zero = exact(0.0, "(28)")
        return CouplingConstants(zero, zero, True)
    if radius == inf:
        none = absent(inf, "(28)", "the quadratic coupling is not Lipschitz without a ball around x")
        return CouplingConstants(none, none, True)
    slope = exact(penalty * weight * radius, "(28)")
    return CouplingConstants(slope, slope, True)


def huber_coupling(penalty: float, width: float, weight: float, radius: float = inf) -> CouplingConstants:
    """Quadratic up to `width`, then linear: L0 = penalty weight min(width, radius), with or without a ball."""
    positive("width", width)
    return quadratic_coupling(penalty, weight, min(width, radius))


class LowerConstants(NamedTuple):
    """The constants of one h_i, before the set and the coupling enter."""

    mu_h: Number
    L_h: Number
    L_x: Number
    sigma: Number


def quadratic_client(
    dependence: Dependence,
    curvature: Real[Array | np.ndarray, "n"],
    proximity: float,
    coupling: CouplingConstants,
    *,
    variance: Real[Array | np.ndarray, "n"],
    batch: int,
    start: Number,
) -> ClientConstants:
    """The two-level quadratic, equation (27). `variance` [n] of a client's rows, `batch` rows a step; all exact.

    grad_y h = q (y - rows) + mu (y - x): mu_h = min q + mu, L_h = max q + mu, L_x = mu, sigma_i^2 = sum_j q_j^2 var_j / batch.
    """
    q = np.asarray(curvature, dtype=np.float64)
    require(bool(np.all(q >= 0)), "curvature", curvature, "must not be negative", "h would not be convex")
    whole("batch", batch)
    noise = sqrt(float(np.sum(q**2 * np.asarray(variance, dtype=np.float64))) / batch)
    low, high = float(q.min()), float(q.max())
    moves = proximal_motion(dependence, proximity, exact(high, "(27)"), low)
    if dependence == "everywhere":  # y = (q b + mu x)/(q + mu): (5) holds with equality
        moves = Motion(moves.y._replace(label="exact"), moves.difference._replace(label="exact"))
    lower = LowerConstants(
        exact(low + proximity, "(27)"), exact(high + proximity, "(27)"), exact(proximity, "(27)"), exact(noise, "(27)")
    )
    return _client(lower, coupling, moves, start)


def softmax_smoothness(rows: Rows) -> Number:
    """The Lipschitz constant of the gradient of softmax regression's cross entropy: lambda_max(mean a a^T)/2, equation (26).

    At most max |a|^2/2. Attained where two classes share all probability in every row, so it is a bound, and not a loose one.
    Costs the largest eigenvalue of a matrix of min(features, rows) squared; above LARGE, lambda_max(G)^4 <= trace(G^4) instead.
    """
    a = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    gram = a.T @ a if a.shape[1] <= a.shape[0] else a @ a.T
    return bound(_largest_eigenvalue(gram) / len(a) / 2, "(26)")


def _largest_eigenvalue(matrix: np.ndarray) -> float:
    from scipy.linalg import eigh  # scipy comes with jax

    if len(matrix) > LARGE:
        return float(np.sqrt(np.linalg.norm(matrix @ matrix)))  # the Frobenius norm of G^2 is sqrt(trace(G^4))
    last = len(matrix) - 1
    return max(0.0, float(eigh(matrix, eigvals_only=True, subset_by_index=(last, last))[0]))


def softmax_noise(rows: Rows, batch: int) -> Number:
    """sigma of a minibatch gradient: |grad of one row| <= sqrt(2) |a|, so sigma^2 <= 2 mean |a|^2 / batch, equation (26)."""
    whole("batch", batch)
    a = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    return bound(sqrt(2 * float(np.mean(np.sum(a**2, axis=1))) / batch), "(26)")


def softmax_slope(rows: Rows) -> Number:
    """The Lipschitz constant of the mean cross entropy itself: sqrt(2) mean |a|, equation (26)."""
    a = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    return bound(sqrt(2) * float(np.mean(np.linalg.norm(a, axis=1))), "(26)")


def softmax_client(
    dependence: Dependence, rows: Rows, proximity: float, coupling: CouplingConstants, *, batch: int, radius: float
) -> ClientConstants:
    """Softmax regression with proximity mu, equation (26): mu_h = mu alone, because cross entropy is flat along common shifts.

    Unconstrained, mu |y_i(x) - x| = |grad loss(y_i(x))| <= `softmax_slope`: the solution lies in a ball that the data give, and
    a ball of at least that radius never cuts it, so that y_i moves as if there were none.
    """
    smooth = softmax_smoothness(rows)
    mu = exact(proximity, "(26)") if proximity > 0 else absent(0.0, "(26)", "cross entropy alone is not strongly convex")
    natural = softmax_slope(rows).value / proximity if proximity > 0 else inf
    if dependence in ("everywhere", "translated") and min(radius, natural) < inf:
        start = bound(min(radius, natural), "(26)")
    else:
        start = absent(inf, "(26)", "x may lie at any distance from the solution")
    free = dependence == "translated" and radius >= natural  # the ball cuts no solution
    moves = proximal_motion("everywhere" if free else dependence, proximity, smooth)
    high = derived(smooth.value + proximity, "(26)", smooth)
    return _client(LowerConstants(mu, high, exact(proximity, "(26)"), softmax_noise(rows, batch)), coupling, moves, start)


def general_client(
    dependence: Dependence, lower: LowerConstants, coupling: CouplingConstants, start: Number
) -> ClientConstants:
    """Any h with these constants, by equations (3), (4) and (6)."""
    return _client(lower, coupling, motion(dependence, lower.mu_h, lower.L_h, lower.L_x), start)


def _client(lower: LowerConstants, coupling: CouplingConstants, moves: Motion, start: Number) -> ClientConstants:
    L0_imp = implicit_lipschitz(moves, coupling.L0_y, coupling.L0_x, of_difference=coupling.of_difference)
    return ClientConstants(*lower, coupling.L0_y, coupling.L0_x, L0_imp, moves, start)
