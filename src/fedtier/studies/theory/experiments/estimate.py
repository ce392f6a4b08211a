"""The two-point estimate: its mean is the smoothed gradient, its second moment at most n L0^2, for n = 10 .. 10,000."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .... import keys
from ....methods.two_levels import estimators
from ....methods.two_levels.smoothing import sphere
from ....theory import sphere as theory
from ....theory.radial import BallForm
from ..row import Row, at_most, attained

if TYPE_CHECKING:  # loaded where a picture is drawn
    from matplotlib.axes import Axes

SIZES = (10, 100, 1000, 10_000)
DRAWS = 4000
ETA = 0.1
MANY, WIDE = 100_000, 50  # draws and parameters of the smoothing experiment
FUNCTIONS = ("linear", "bowl with a kink", "distance to the orthant")


def moments(axes: Axes | None = None) -> list[Row]:
    """One bowl with a kink (a client in a ball), one linear function, one distance to the orthant; all 1-Lipschitz."""
    ratios, scores, slack = np.zeros((3, len(SIZES))), np.zeros(len(SIZES)), 0.0
    for j, n in enumerate(SIZES):
        form, x = _bowl(n), np.zeros(n)
        x[0] = 2.0  # on the kink: s t = radius
        along = form.client_gradient(x, ETA, 0)
        length = float(np.linalg.norm(along))
        squares, part = _draw(jnp.asarray(x, jnp.float32), jnp.asarray(along / length, jnp.float32))
        ratios[:, j] = squares.mean(axis=0) / theory.second_moment(1.0, n)
        slack = max(slack, float(4 * np.max(squares.std(axis=0)) / sqrt(DRAWS) / n))
        scores[j] = (part.mean() - length) / (part.std() / sqrt(DRAWS))
    paper = theory.paper_second_moment(1.0, 1) / theory.second_moment(1.0, 1)
    if axes is not None:
        for name, row in zip(FUNCTIONS, ratios, strict=True):
            axes.loglog(SIZES, row * np.array(SIZES), "o-", label=name)
        axes.loglog(SIZES, SIZES, "k--", label="bound (10): n L0²")
        axes.loglog(SIZES, paper * np.array(SIZES), "k:", label="paper: 16 sqrt(2 pi) n L0²")
        axes.set(xlabel="parameters n", ylabel="E|g|²", title="Second moment of the two-point estimate")
        axes.legend(fontsize=7)
    score, how = float(np.max(np.abs(scores))), f"n = 10 .. 10,000, {DRAWS} draws each"
    linear = ratios[0, np.argmax(np.abs(ratios[0] - 1))]
    return [
        Row(
            "mean of g against grad f_eta, in standard errors", "(7)", score, 4.0, score <= 4.0, how,
            "a bias of four standard errors or more; none below",
        ),
        at_most("E|g|^2 over n L0^2", "(10)", ratios.max(), 1.0, f"three functions, {how}", slack=slack),
        attained("E|g|^2 over n L0^2, linear: attained", "(10)", linear, 1.0, "the size n farthest off", slack=slack),
        at_most("E|g|^2 over the paper's 16 sqrt(2 pi) n L0^2", "(10)", ratios.max() / paper, 1.0, "true, 40 times too large"),
    ]  # fmt: skip


def smoothing(axes: Axes | None = None) -> list[Row]:
    """f = |x_1| has the largest curvature after smoothing, f = |x| the largest gap: both constants are attained."""
    n = WIDE
    draw = jax.jit(jax.vmap(lambda k: sphere(keys.at(keys.root(3), k), jnp.zeros(n))))
    v = np.asarray(draw(jnp.arange(MANY)), np.float64)
    h = 0.002 * ETA
    bend = n / ETA * (np.abs(h + ETA * v[:, 0]) - np.abs(ETA * v[:, 0] - h)) * v[:, 0] / (2 * h)
    curvature, error = float(bend.mean()), 4 * float(bend.std()) / sqrt(MANY)
    u = np.random.default_rng(0).uniform(size=(MANY, 1)) ** (1 / n) * v  # uniform in the ball
    lift = ETA * np.linalg.norm(u, axis=1)  # f(eta u) - f(0) for f = |x|
    gap, deviation = float(lift.mean()), 4 * float(lift.std()) / sqrt(MANY)
    smooth, sharp = theory.smoothness(1.0, n, ETA), theory.gap(1.0, n, ETA)
    if axes is not None:
        grid = np.linspace(-3, 3, 121) * ETA
        smoothed = [np.mean(np.abs(t + ETA * v[:4000, 0])) for t in grid]
        axes.plot(grid, np.abs(grid), label="f = |x_1|")
        axes.plot(grid, smoothed, label=f"mean over the sphere, n = {n}")
        axes.set(xlabel="x_1", title="A kink and its smoothed version")
        axes.legend(fontsize=7)
    how = f"n = {n}, {MANY} draws, four standard errors allowed"
    return [
        attained("curvature of |x_1| smoothed, at 0: attained", "(9)", curvature, smooth, how, slack=error / curvature),
        at_most("the same, paper's L0 sqrt(n)/eta", "(9)", curvature, theory.paper_smoothness(1.0, n, ETA), "rounded up"),
        attained("gap of |x| at 0: attained", "(8)", gap, sharp, how, slack=deviation / gap),
    ]


def two_point(plus: Array, minus: Array, v: Array, eta: float = ETA) -> Array:
    """n/(2 eta) (plus - minus) v, with the estimator that methods use."""
    return estimators.sphere().estimate(((plus - minus) / (2 * eta))[None], v[None], keys.root(0), None)


def _bowl(n: int) -> BallForm:
    """lambda = 2, s = 1/2, radius 1: slope at most 2 * 1 * 1/2 = 1."""
    return BallForm(np.zeros(n), np.zeros((1, n)), np.ones(1), np.ones(1), np.ones(1), 2.0, 1.0)


def _draw(x: Array, along: Array) -> tuple[np.ndarray, np.ndarray]:
    """|g|^2 [DRAWS, 3] of the three functions, and <g, along> of the bowl, with the estimate that methods use."""
    functions = (
        (lambda p: p[0], x),
        (lambda p: jnp.minimum(0.5 * jnp.linalg.norm(p), 1.0) ** 2, x),
        (lambda p: jnp.linalg.norm(jnp.minimum(p, 0.0)), jnp.full_like(x, 0.01)),
    )

    @jax.jit
    def all_draws(along: Array) -> tuple[Array, Array]:
        def one(k: Array) -> tuple[Array, Array]:
            v = sphere(keys.at(keys.root(2), k), x)
            g = [two_point(f(p + ETA * v), f(p - ETA * v), v) for f, p in functions]
            return jnp.stack([jnp.vdot(a, a) for a in g]), jnp.vdot(g[1], along)

        return jax.lax.map(one, jnp.arange(DRAWS), batch_size=100)

    squares, part = all_draws(along)
    return np.asarray(squares, np.float64), np.asarray(part, np.float64)
