"""The two-point estimate: its mean is the smoothed gradient, its second moment at most n L0^2, for n = 10 .. 10,000."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .... import keys
from ....methods import estimators
from ....methods.smoothing import sphere
from ....theory import sphere as theory
from ....theory.radial import BallForm
from ..row import Row

SIZES = (10, 100, 1000, 10_000)
DRAWS = 4000
ETA = 0.1
PAPER = 32 * sqrt(2 * pi)  # its c1 over L0^2


def moments(axes: Any = None) -> list[Row]:
    """One bowl with a kink (a client in a ball), one linear function, one distance to the orthant; all 1-Lipschitz."""
    names, ratios, scores = (
        ("linear", "bowl with a kink", "distance to the orthant"),
        np.zeros((3, len(SIZES))),
        np.zeros(len(SIZES)),
    )
    slack = 0.0
    for j, n in enumerate(SIZES):
        form, x = _bowl(n), np.zeros(n)
        x[0] = 2.0  # on the kink: s t = radius
        along = form.client_gradient(x, ETA, 0)
        length = float(np.linalg.norm(along))
        squares, part = _draw(jnp.asarray(x, jnp.float32), jnp.asarray(along / length, jnp.float32))
        ratios[:, j] = squares.mean(axis=0) / theory.second_moment(1.0, n)
        slack = max(slack, float(3 * np.max(squares.std(axis=0)) / sqrt(DRAWS) / theory.second_moment(1.0, n)))
        scores[j] = (part.mean() - length) / (part.std() / sqrt(DRAWS))
    if axes is not None:
        for name, row in zip(names, ratios, strict=True):
            axes.loglog(SIZES, row * np.array(SIZES), "o-", label=name)
        axes.loglog(SIZES, SIZES, "k--", label="bound (10): n L0²")
        axes.loglog(SIZES, PAPER * np.array(SIZES), "k:", label="paper: 32 sqrt(2 pi) n L0²")
        axes.set(xlabel="parameters n", ylabel="E|g|²", title="Second moment of the two-point estimate")
        axes.legend(fontsize=7)
    score = float(np.max(np.abs(scores)))
    return [
        Row(
            "mean of g against grad f_eta, in standard errors",
            "(7)",
            score,
            4.0,
            score <= 4.0,
            f"n = 10 .. 10,000, {DRAWS} draws each",
        ),
        Row(
            "E|g|^2 over n L0^2",
            "(10)",
            float(ratios.max()),
            1.0,
            bool(ratios.max() <= 1 + slack),
            "three functions, n = 10 .. 10,000",
        ),
        Row(
            "E|g|^2 over n L0^2, linear: attained",
            "(10)",
            float(ratios[0].min()),
            1.0,
            bool(abs(ratios[0] - 1).max() <= max(slack, 0.1)),
            "a smaller constant would be wrong",
        ),
        Row(
            "E|g|^2 over the paper's c1 n",
            "(10)",
            float(ratios.max() / PAPER),
            1.0,
            bool(ratios.max() <= PAPER),
            "true, 80 times too large",
        ),
    ]


def smoothing(axes: Any = None) -> list[Row]:
    """f = |x_1| has the largest curvature after smoothing, f = |x| the largest gap: both constants are attained."""
    rows, n = [], 50
    v = np.asarray(jax.jit(jax.vmap(lambda k: sphere(keys.at(keys.root(3), k), jnp.zeros(n))))(jnp.arange(100_000)), np.float64)
    h = 0.02 * ETA
    gradient = [n / ETA * np.mean(np.abs(s * h + ETA * v[:, 0]) * v[:, 0]) for s in (1, -1)]
    curvature, limit = (gradient[0] - gradient[1]) / (2 * h), theory.smoothness(1.0, n, ETA)
    rows.append(
        Row(
            "curvature of |x_1| smoothed, n = 50",
            "(9)",
            float(curvature),
            limit,
            bool(curvature <= 1.02 * limit),
            "attained at 0",
        )
    )
    rounded = theory.paper_smoothness(1.0, n, ETA)
    rows.append(
        Row("the same, paper's L0 sqrt(n)/eta", "(9)", float(curvature), rounded, bool(curvature <= rounded), "rounded up")
    )
    lengths = np.random.default_rng(0).uniform(size=100_000) ** (1 / n)
    gap = float(ETA * lengths.mean())
    rows.append(
        Row("gap of |x| at 0, n = 50", "(8)", gap, theory.gap(1.0, n, ETA), gap <= theory.gap(1.0, n, ETA) * 1.001, "attained")
    )
    if axes is not None:
        grid = np.linspace(-3, 3, 121) * ETA
        smooth = [np.mean(np.abs(t + ETA * v[:4000, 0])) for t in grid]
        axes.plot(grid, np.abs(grid), label="f = |x_1|")
        axes.plot(grid, smooth, label="mean over the sphere, n = 50")
        axes.set(xlabel="x_1", title="A kink and its smoothed version")
        axes.legend(fontsize=7)
    return rows


def two_point(plus: Any, minus: Any, v: Any) -> Any:
    """n/(2 eta) (plus - minus) v, with the estimator that methods use."""
    return estimators.sphere().estimate(((plus - minus) / (2 * ETA))[None], v[None], keys.root(0), None)


def _bowl(n: int) -> BallForm:
    """lambda = 2, s = 1/2, radius 1: slope at most 2 * 1 * 1/2 = 1."""
    return BallForm(np.zeros(n), np.zeros((1, n)), np.ones(1), np.ones(1), np.ones(1), 2.0, 1.0)


def _draw(x: Any, along: Any) -> tuple[np.ndarray, np.ndarray]:
    """|g|^2 [DRAWS, 3] of the three functions, and <g, along> of the bowl, with the estimate that methods use."""
    functions = (
        (lambda p: p[0], x),
        (lambda p: jnp.minimum(0.5 * jnp.linalg.norm(p), 1.0) ** 2, x),
        (lambda p: jnp.linalg.norm(jnp.minimum(p, 0.0)), jnp.full_like(x, 0.01)),
    )

    @jax.jit
    def all_draws(along: Any) -> Any:
        def one(k: Any) -> Any:
            v = sphere(keys.at(keys.root(2), k), x)
            g = [two_point(f(p + ETA * v), f(p - ETA * v), v) for f, p in functions]
            return jnp.stack([jnp.vdot(a, a) for a in g]), jnp.vdot(g[1], along)

        return jax.lax.map(one, jnp.arange(DRAWS), batch_size=100)

    squares, part = all_draws(along)
    return np.asarray(squares, np.float64), np.asarray(part, np.float64)
