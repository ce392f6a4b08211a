"""A two-level problem with kinks whose smoothed gradient is known: the yardstick of the experiments.

    f1(x) = 1/2 |x - a|^2,   h_i = q_i/2 |y - b_i|^2 + mu/2 |y - x|^2 on |y - x| <= radius_i,   f2 = lambda/2 weight_i |x - y|^2

y = x + z and h is round in z about -s_i (x - b_i), s_i = q_i/(q_i + mu), so z is that point, cut to the ball. Hence

    f2(x, y_i(x)) = lambda/2 weight_i min(s_i t, radius_i)^2,      t = |x - b_i|:   a bowl, flat outside, with a kink between.

A function of |x - b| alone has a smoothed gradient that is one integral over the angle of v. Host float64 throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NODES = 2001  # of the midpoint rule over the angle: relative error below 1e-6 with a kink


class BallForm(NamedTuple):
    a: np.ndarray  # [n]
    b: np.ndarray  # [m, n]
    curvature: np.ndarray  # [m]: q_i, one number a client
    weight: np.ndarray  # [m]
    radius: np.ndarray  # [m]
    penalty: float
    proximity: float

    def shrink(self) -> np.ndarray:
        """s_i, [m]."""
        return self.curvature / (self.curvature + self.proximity)

    def solution(self, x: np.ndarray) -> np.ndarray:
        """y_i(x), [m, n]."""
        z = -self.shrink()[:, None] * (x - self.b)
        length = np.linalg.norm(z, axis=-1, keepdims=True)
        return x + z * np.minimum(1.0, self.radius[:, None] / np.maximum(length, 1e-300))

    def implicit(self, t: float | np.ndarray, i: int) -> float | np.ndarray:
        """f2(x, y_i(x)) at the distance t from b_i."""
        return 0.5 * self.penalty * self.weight[i] * np.minimum(self.shrink()[i] * t, self.radius[i]) ** 2

    def value(self, x: np.ndarray) -> float:
        """f(x), not smoothed."""
        t = np.linalg.norm(x - self.b, axis=-1)
        parts = [float(self.implicit(t[i], i)) for i in range(len(self.b))]
        return float(0.5 * np.sum((x - self.a) ** 2) + np.mean(parts))

    def smoothed_gradient(self, x: np.ndarray, eta: float) -> np.ndarray:
        """grad of f1 + mean_i (f2(., y_i(.)))_eta at points x [..., n]."""
        pulls = [self.client_gradient(x, eta, i) for i in range(len(self.b))]
        return (x - self.a) + np.mean(pulls, axis=0)

    def client_gradient(self, x: np.ndarray, eta: float, i: int) -> np.ndarray:
        """grad of (f2(., y_i(.)))_eta at points x [..., n]."""
        d = x - self.b[i]
        t = np.linalg.norm(d, axis=-1, keepdims=True)
        return self.slope(t[..., 0], eta, i)[..., None] * d / np.maximum(t, 1e-300)

    def slope(self, t: float | np.ndarray, eta: float, i: int) -> np.ndarray:
        """The same gradient's length at distances t from b_i: n/eta E[psi(|x - b + eta v|) v_1]. Costs NODES values each."""
        t, n = np.asarray(t, np.float64)[..., None], len(self.a)
        v1, weights = first_coordinate(n)
        ahead = self.implicit(np.sqrt(np.maximum(t**2 + 2 * t * eta * v1 + eta**2, 0)), i)
        behind = self.implicit(np.sqrt(np.maximum(t**2 - 2 * t * eta * v1 + eta**2, 0)), i)
        return np.asarray(n / (2 * eta) * np.sum((ahead - behind) * v1 * weights, axis=-1))


def first_coordinate(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for E phi(v_1), v uniform on the unit sphere: v_1 = cos(angle) with density sin(angle)^(n-2)."""
    if n == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    half = min(np.pi / 2, 12 / np.sqrt(n))  # beyond 12 standard deviations nothing is left
    angle = np.pi / 2 + half * ((np.arange(NODES) + 0.5) / NODES * 2 - 1)
    weights = np.sin(angle) ** (n - 2)
    return np.cos(angle), weights / weights.sum()
