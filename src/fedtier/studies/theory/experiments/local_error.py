"""Algorithm 2's error against H: below the bounds (12) and (13), with slope -1; and slope -2 c mu_h where c is too small."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .... import keys
from ....federation import View
from ....methods.solvers import projected_sgd
from ....problem import ball, orthant
from ....problem.closed_forms import QuadraticSpec, two_level_quadratic
from ....schedules import inverse
from ....theory import local
from ....theory.local import LocalProblem
from ..row import Row, attained

CHAINS = 512
STEPS = 2 ** np.arange(0, 13)
MU = 0.5  # proximity


def local_error(axes: Any = None) -> list[Row]:
    """Rows for two sets whose constraints bind, and for a step that shrinks too soon."""
    rng = np.random.default_rng(0)
    n, q = 6, np.array([0.5, 0.8, 1.0, 2.0, 3.0, 4.0])
    b = np.array([1.0, -1.0, 0.5, -0.5, 0.2, 2.0])
    data = np.float32(b + rng.normal(size=(256, n)))
    x = np.zeros(n)
    variance = float(np.sum(q**2 * data.var(axis=0, dtype=np.float64)))
    rows = []
    cases = {"orthant": (orthant(), lambda y: np.maximum(y, 0)), "ball": (ball(1.0), lambda y: y / max(1.0, np.linalg.norm(y)))}
    for name, (Y, project) in cases.items():
        best = _solve(q, data.mean(axis=0, dtype=np.float64), x, project)
        client = LocalProblem(q.min() + MU, q.max() + MU, variance, float(np.sum((x - best) ** 2)))
        c, offset = local.guaranteed(client.mu, client.L)
        measured, error = _measure(Y, q, data, x=x, best=best, step=(c, offset))
        bounds = local.recursion(inverse(c, offset), client, int(STEPS[-1]))[STEPS]
        closed = local.decay_constant(c, offset, client)
        worst = int(np.argmax(measured / bounds))
        ratio, slope = float(measured[worst] / bounds[worst]), _slope(STEPS[5:], measured[5:])
        rows += [
            Row(
                f"Algorithm 2 on the {name}: E|y - y(x)|^2 over its bound", "(12)", ratio, 1.0,
                bool(np.all(measured <= bounds + 3 * error)), f"largest ratio over H = 1 .. {STEPS[-1]}, {CHAINS} chains",
                f"a bound below {ratio:.2g} of this one; no larger one",
            ),
            attained(
                f"its slope in log H on the {name}", "(13)", slope, -1.0, f"H = {STEPS[5]} .. {STEPS[-1]}", slack=0.1
            ),
        ]  # fmt: skip
        if axes is not None:
            (line,) = axes.loglog(STEPS, measured, "o-", label=f"{name}: measured")
            axes.loglog(STEPS, bounds, "--", color=line.get_color(), label=f"{name}: bound (12)")
            axes.loglog(
                STEPS, [closed.error(float(H)) for H in STEPS], ":", color=line.get_color(), label=f"{name}: bound (13)"
            )
    rows.append(_too_small(axes))
    if axes is not None:
        axes.set(xlabel="local steps H", ylabel="E|y - y(x)|²", title="Algorithm 2: error against H")
        axes.legend(fontsize=7)
    return rows


def _too_small(axes: Any) -> Row:
    """h = 1/2 y^2 without noise and c = 0.1: e_H ~ H^-0.2."""
    still = np.zeros((4, 1), np.float32)
    measured, _ = _measure(orthant(), np.ones(1), still, x=np.ones(1), best=np.zeros(1), step=(0.1, 1.0), mu=0.0)
    slope = _slope(STEPS[5:], measured[5:])
    if axes is not None:
        axes.loglog(STEPS, measured, "s-", color="gray", markersize=3, label="c mu = 0.1: measured")
    predicted = -local.decay_exponent(0.1, 1.0)
    return attained("slope where c mu_h = 0.1 (no noise)", "(13)", slope, predicted, "not 1/H: predicted -2 c mu_h", slack=0.05)


def _measure(
    Y: Any, q: Any, data: Any, *, x: Any, best: Any, step: tuple[float, float], mu: float = MU
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of |y_H - best|^2 and its standard error for every H of STEPS, with the solver that methods use."""
    problem = two_level_quadratic(proximity=mu, Y=Y)
    solve = projected_sgd(f"inverse({step[0]}, {step[1]})", batch=1).lower_level(problem)
    view = View(jnp.asarray(data), jnp.arange(len(data)), jnp.asarray(0), jnp.asarray(len(data)))
    spec = QuadraticSpec(jnp.ones(()), jnp.ones(()), jnp.ones(()), jnp.asarray(q, jnp.float32))
    start = jnp.asarray(x, jnp.float32)

    @jax.jit
    def chains(steps: Any, view: View) -> Any:
        one = lambda k: solve(start, start, view, spec, steps, keys.at(keys.root(1), k))  # noqa: E731
        return jax.vmap(one)(jnp.arange(CHAINS))

    squares = np.stack([np.sum((np.asarray(chains(H, view), np.float64) - best) ** 2, axis=1) for H in STEPS])
    return squares.mean(axis=1), squares.std(axis=1) / np.sqrt(CHAINS)


def _solve(q: np.ndarray, b: np.ndarray, x: np.ndarray, project: Any) -> np.ndarray:
    y = project(x)
    for _ in range(5000):
        y = project(y - (q * (y - b) + MU * (y - x)) / (q.max() + MU))
    return y


def _slope(H: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(H), np.log(values), 1)[0])
