"""Constraints: how fast solutions move (5), and what smoothing makes of the kinks that they put into f."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .... import keys
from ....federation import Federation, View, Window
from ....methods import descent, projected_sgd, zo_hfl
from ....methods import sphere as on_the_sphere
from ....problem import ConstraintSet, Spec, ball, everywhere, orthant
from ....problem.closed_forms import QuadraticSpec, orthant_example, two_level_quadratic
from ....theory import sphere, theorem1
from ....theory.lipschitz import proximal_motion
from ....theory.numbers import exact
from ..row import Row, at_most, exceeds
from .estimate import ETA, two_point
from .paths import path

PAIRS, STEP = 2000, 0.05


def movement(axes: Any = None) -> list[Row]:
    """|d(x - y(x))|/|dx| over random pairs and over one near the worst case, against (5); half of the constant is refuted."""
    q, mu, rows = np.array([16.0, 0.01]), 1.0, []
    # Where the ball just begins to bind with a normal at the worst angle: q (x + z) + mu z = 0, |z| = 1, z_2^2 = mu/q_1.
    z = -np.array([np.sqrt(1 - 1 / 16), 0.25])
    corner = -z * (q + mu) / q
    rng = np.random.default_rng(0)
    points = np.concatenate([3 * rng.normal(size=(PAIRS, 2)), corner + [0.05, 0] + 0.02 * rng.normal(size=(PAIRS, 2))])
    moves = rng.normal(size=points.shape)
    moves *= STEP / np.linalg.norm(moves, axis=1, keepdims=True)
    for Y in (everywhere(), orthant(), ball(1.0)):
        speeds = _speeds(Y, q, mu, points, moves)
        limit = proximal_motion(Y.dependence, mu, exact(16.0, "(27)"), 0.01).difference.value
        fastest = float(speeds.max())
        rows += [
            at_most(f"movement of x - y(x), {Y.name}", "(5)", fastest, limit, f"{2 * PAIRS} pairs of points", slack=0.001),
            exceeds(f"half of that constant, {Y.name}: refuted", "(5)", fastest, limit / 2, "measured above it"),
        ]
        if axes is not None:
            (line,) = axes.plot(np.sort(speeds)[::-1][:1000], label=f"{Y.name}: measured, sorted")
            axes.axhline(limit, linestyle="--", color=line.get_color(), label=f"{Y.name}: bound (5)")
    if axes is not None:
        axes.set(xlabel="pairs, fastest first", ylabel="|d(x - y)| / |dx|", title="How fast solutions move with x")
        axes.legend(fontsize=7)
    return rows


def _speeds(Y: ConstraintSet, q: np.ndarray, mu: float, points: np.ndarray, moves: np.ndarray) -> np.ndarray:
    solve = projected_sgd(float(1 / (q.max() + mu)), batch=1).lower_level(two_level_quadratic(proximity=mu, Y=Y))
    spec = QuadraticSpec(jnp.ones(()), jnp.ones(()), jnp.ones(()), jnp.asarray(q, jnp.float32))
    view = View(jnp.zeros((1, 2)), jnp.arange(1), jnp.asarray(0), jnp.asarray(1))  # one row: no noise

    @jax.jit
    def displacement(x: Any, view: View) -> Any:
        return x - jax.vmap(lambda p: solve(p, p, view, spec, 400, keys.root(0)))(x)

    before, after = (np.asarray(displacement(jnp.asarray(p, jnp.float32), view), np.float64) for p in (points, points + moves))
    return np.linalg.norm(after - before, axis=1) / STEP


def kinks(axes: Any = None) -> list[Row]:
    """The orthant example, f(x) = (x + 1 - max(x, 0))^2/2: neither smooth nor convex, solved across its kink."""
    problem, spec = orthant_example(), Spec(jnp.ones(()), jnp.asarray(jnp.inf), jnp.ones(()))
    solve = projected_sgd(0.5, batch=1).lower_level(problem)  # h = |y - x|^2: one step is exact
    view = View(jnp.zeros((1, 1)), jnp.arange(1), jnp.asarray(0), jnp.asarray(1))
    grid = np.linspace(-2, 1, 241)

    @jax.jit
    def value(x: Any) -> Any:
        return problem.f2(x, solve(x, x, view, spec, 1, keys.root(0)), spec)

    def closed(x: Any) -> Any:
        return 0.5 * (x + 1 - np.maximum(x, 0)) ** 2

    found = [float(two_point(value(jnp.array([x + ETA])), value(jnp.array([x - ETA])), jnp.ones(1))[0]) for x in grid]
    slope = (closed(grid + ETA) - closed(grid - ETA)) / (2 * ETA)  # f_eta' in one dimension
    wrong = float(np.max(np.abs(found - slope)))
    bend = float(np.max(np.abs(np.diff(slope) / np.diff(grid))))
    squares, bound = _run(problem, closed)
    if axes is not None:
        smooth = [np.mean(closed(x + ETA * np.linspace(-1, 1, 201))) for x in grid]
        axes.plot(grid, closed(grid), label="f")
        axes.plot(grid, smooth, "--", label=f"f smoothed, eta = {ETA}")
        axes.plot(grid, slope, label="its slope, and what ZO-HFL estimates:")
        axes.plot(grid[::8], found[::8], "k.", markersize=4, label="estimate")
        axes.set(xlabel="x", title="The orthant example: a kink at 0")
        axes.legend(fontsize=7)
    limit = sphere.smoothness(1.0, 1, ETA)
    return [
        Row(
            "orthant: estimate against the slope of f_eta", "(7)", wrong, 1e-4, wrong <= 1e-4,
            "one dimension, both directions agree; float32", "any slope that is off by more than 1e-4",
        ),
        at_most("orthant: curvature of f_eta", "(9)", bend, limit, "L0 = 1 on [-2, 1]"),
        at_most("orthant: Theorem 1 across the kink", "(19)", squares, bound, "from x_0 = 0.05 over 0 to -1, 2000 rounds"),
    ]  # fmt: skip


def _run(problem: Any, closed: Any) -> tuple[float, float]:
    rounds = 2000
    land = theorem1.Landscape(1, ETA, sphere.smoothness(1.0, 1, ETA), sphere.second_moment(1.0, 1))
    c = land.step_limit()
    one = jnp.ones(1, int)
    federation = Federation(
        jnp.zeros((2, 1)),
        jnp.arange(2),
        Window(0 * one[0], 0 * one[0]),
        Window(0 * one[0], one[0]),
        Window(one, one),
        Window(one, 0 * one),
        Spec(jnp.ones(1), jnp.full(1, jnp.inf), jnp.ones(1)),
    )
    method = zo_hfl(
        problem,
        estimator=on_the_sphere(smoothing=ETA),
        local=projected_sgd(0.5, batch=1),
        server=descent(f"inverse_sqrt({c})", batch=1),
    )
    points = path(method, federation, np.array([0.05]), rounds=rounds, seeds=1, tau=1.0, cohort=1)[0, :, 0]
    slopes = (closed(points + ETA) - closed(points - ETA)) / (2 * ETA)
    gamma = c / np.sqrt(np.arange(rounds) + 1.0)
    gap = float(closed(0.05)) + sphere.gap(1.0, 1, ETA)
    return float(np.sum(gamma * slopes**2) / gamma.sum()), theorem1.bounds(land, gamma, 0.0, gap).weighted
