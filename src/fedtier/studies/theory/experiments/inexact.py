"""What inexact local solves do to the estimate: second moment (15) and bias (16).

A linear coupling (`huber` far from its middle) has slope L0_y along the displacement x - y, and the rows of the one client vary
in that direction alone: all of the solver's noise is felt, and (12) is nearly an equality. With independent draws for the two
solves Algorithm 2 then comes within a factor 2 or so of (15). The worst solver has an error that grows with the first
coordinate of its model, so that it has opposite signs at the two probes: it attains both (15) and (16).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from .... import keys
from ....federation import View
from ....methods.solvers import projected_sgd
from ....methods.two_levels.smoothing import sphere
from ....problem import everywhere, huber
from ....problem.closed_forms import QuadraticSpec, two_level_quadratic
from ....schedules import inverse
from ....theory import local
from ....theory import sphere as theory
from ....theory.local import LocalProblem
from ..row import Row, at_most, attained
from .estimate import two_point

if TYPE_CHECKING:  # loaded where a picture is drawn
    from matplotlib.axes import Axes

DRAWS, MANY, ETA, N = 4000, 20_000, 0.2, 20  # draws for Algorithm 2 and for the worst solver
STEPS = 2 ** np.arange(0, 10)
CURVATURE = MU = SLOPE = 1.0  # q, the proximity, and L0_y = penalty weight width
DISTANCE, NOISE = 10.0, 2.0  # from x = 0 to the mean of the rows; a row's deviation along the first axis
ERROR = 0.01  # E|y - y(x)|^2 of the worst solver


def inexact(axes: Axes | None = None) -> list[Row]:
    """Rows: Algorithm 2 with independent draws below (15), the worst solver on (15) and (16), what coupled draws save."""
    rows = _data()
    c, offset = local.guaranteed(CURVATURE + MU, CURVATURE + MU)
    away = CURVATURE / (CURVATURE + MU) * (DISTANCE + ETA)  # |x - y(x)| at the farther probe, at most
    variance = CURVATURE**2 * float(rows.var(axis=0, dtype=np.float64).sum())
    client = LocalProblem(CURVATURE + MU, CURVATURE + MU, variance, away**2)
    errors = local.recursion(inverse(c, offset), client, int(STEPS[-1]))[STEPS]
    bounds = np.array([theory.inexact_second_moment(SLOPE, N, ETA, e) for e in errors])
    solved, worst = _differences(rows, (c, offset)), _differences(rows, None)(1, 1, MANY)
    second = {
        name: np.array([np.mean(np.sum(solved(int(H), coupled, DRAWS) ** 2, axis=1)) for H in STEPS])
        for name, coupled in (("coupled", 1), ("independent", 0))
    }
    moment, bias = np.mean(np.sum(worst**2, axis=1)), np.sum(worst.mean(axis=0) ** 2)
    ratio, gain = np.max(second["independent"] / bounds), float(np.median(second["independent"] / second["coupled"]))
    if axes is not None:
        for name, marker in (("independent", "s-"), ("coupled", "o-")):
            axes.loglog(STEPS, second[name], marker, label=f"{name} draws: E|error of g|²")
        axes.loglog(STEPS, bounds, "k--", label="bound (15)")
        axes.set(xlabel="local steps H", title="Error of the estimate from inexact solves")
        axes.legend(fontsize=7)
    how = f"n = {N}, {MANY} draws"
    spread = 4 * sqrt(2 / MANY)  # four deviations of the mean of n v_1^2
    return [
        at_most(
            "Algorithm 2, independent draws: E|error of g|^2 over its bound", "(15)", ratio, 1.0,
            f"largest over H = 1 .. {STEPS[-1]}, {DRAWS} draws", slack=4 * sqrt(2 / DRAWS),
        ),
        attained(
            "the worst solver: E|error of g|^2 over its bound, attained", "(15)",
            moment / theory.inexact_second_moment(SLOPE, N, ETA, ERROR), 1.0, how, slack=spread,
        ),
        attained(
            "the worst solver: squared bias over its bound, attained", "(16)",
            bias / theory.inexact_bias(SLOPE, N, ETA, ERROR), 1.0, how, slack=2 * spread + N / MANY,
        ),
        Row(
            "independent over coupled second moment", "(15)", gain, 10.0, gain >= 10,
            "at least; both inside the theory, shared errors cancel", "draws that the two solves do not share",
        ),
    ]  # fmt: skip


def _data() -> np.ndarray:
    """64 rows around DISTANCE on the first axis, which vary along that axis alone."""
    rows = np.zeros((64, N), np.float32)
    rows[:, 0] = DISTANCE + NOISE * np.random.default_rng(0).normal(size=64)
    rows[:, 0] += DISTANCE - rows[:, 0].mean()
    return rows


def _differences(data: np.ndarray, step: tuple[float, float] | None) -> Callable[[int, int, int], np.ndarray]:
    """(H, coupled, draws) -> g with inexact solves less g with exact ones, [draws, N].

    Algorithm 2 with the step c/(t + Gamma), `step` = (c, Gamma); with None, the worst solver instead.
    """
    problem = two_level_quadratic(proximity=MU, Y=everywhere())._replace(f2=huber(SLOPE, 1.0))
    lr = 1.0 if step is None else f"inverse({step[0]}, {step[1]})"
    solve = projected_sgd(lr, batch=1).lower_level(problem if step else problem._replace(solve=_worst))
    view = View(jnp.asarray(data), jnp.arange(len(data)), jnp.asarray(0), jnp.asarray(len(data)))
    spec = QuadraticSpec(jnp.ones(()), jnp.asarray(jnp.inf), jnp.ones(()), jnp.full(N, CURVATURE))
    x = jnp.zeros(N)

    @partial(jax.jit, static_argnums=3)
    def all_draws(steps: ArrayLike, view: View, coupled: ArrayLike, draws: int) -> Array:
        def one(k: Array) -> Array:
            key = keys.at(keys.root(4), k)
            v = sphere(keys.at(key, 0), x)

            def wrong(sign: float, draw: ArrayLike) -> Array:
                p = x + sign * ETA * v
                y = solve(p, p, view, spec, steps, keys.at(key, 1, draw))
                return problem.f2(p, y, spec) - problem.f2(p, _solution(p, view), spec)

            return two_point(wrong(1.0, 0), wrong(-1.0, 1 - coupled), v, ETA)

        return jax.vmap(one)(jnp.arange(draws))

    return lambda steps, coupled, draws: np.asarray(all_draws(steps, view, coupled, draws), np.float64)


def _solution(p: Array, view: View) -> Array:
    """y(p) = (q b + mu p)/(q + mu), b the mean of the rows."""
    return (CURVATURE * jnp.mean(view.arrays, axis=0) + MU * p) / (CURVATURE + MU)


def _worst(p: Array, start: Array, view: View, spec: PyTree, steps: ArrayLike, key: Key[Array, ""]) -> Array:
    """y(p), moved away from p by sqrt(ERROR n) p_1/eta: at the probes p = +-eta v that is +-sqrt(ERROR n) v_1."""
    y = _solution(p, view)
    return y + jnp.sqrt(ERROR * N) * p[0] / ETA * (y - p) / jnp.linalg.norm(y - p)
