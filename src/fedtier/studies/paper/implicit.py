"""The appendix's example, solved by the package's own solver: f(x, y(x)) in two dimensions, as the paper shows it, and in one
with its smoothed versions, estimates and paths."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ... import keys
from ...federation import Federation, View, Window
from ...methods import descent, projected_sgd, sphere, zo_hfl
from ...problem import Spec
from ...problem.closed_forms import orthant_example
from ..theory.experiments.paths import path

EXACT = "constant(0.5)"  # h = |y - x|^2: one step of a half solves it


class Smoothed(NamedTuple):
    """One eta."""

    eta: float
    values: np.ndarray  # f_eta on the grid
    slope: np.ndarray  # f_eta' on the grid, closed form
    estimates: np.ndarray  # the two-point estimate at `Picture.probes`
    path: np.ndarray  # x_r of ZO-HFL


class Picture(NamedTuple):
    plane: np.ndarray  # [P] the points of each axis in two dimensions
    surface: np.ndarray  # [P, P] f there, computed by the solver
    grid: np.ndarray
    f: np.ndarray  # computed by the solver
    probes: np.ndarray
    smoothed: list[Smoothed]

    def error(self) -> float:
        """The largest distance of an estimate from the slope of f_eta."""
        return max(float(np.max(np.abs(s.estimates - slope(self.probes, s.eta)))) for s in self.smoothed)


def picture(etas: list[float], low: float, high: float, *, start: float, rounds: int, server_lr: str) -> Picture:
    grid, probes, plane = np.linspace(low, high, 601), np.linspace(low, high, 31), np.linspace(low, high, 61)
    around = np.asarray([[probes + eta, probes - eta] for eta in etas])
    values = solved(np.concatenate([grid, around.ravel()])[:, None])  # one call: one compilation
    surface = solved(np.stack(np.meshgrid(plane, plane, indexing="ij"), axis=-1).reshape(-1, 2)).reshape(61, 61)
    smoothed = []
    for eta, (plus, minus) in zip(etas, values[len(grid) :].reshape(around.shape), strict=True):
        estimates = (plus - minus) / (2 * eta)  # n = 1, v = 1 or -1: the same
        smoothed.append(Smoothed(eta, smooth(grid, eta), slope(grid, eta), estimates, walk(eta, start, rounds, server_lr)))
    return Picture(plane, surface, grid, values[: len(grid)], probes, smoothed)


def f(x: np.ndarray) -> np.ndarray:
    """f(x, y(x)) in closed form."""
    return 0.5 * (x + 1 - np.maximum(x, 0)) ** 2


def smooth(x: np.ndarray, eta: float) -> np.ndarray:
    """The mean of f over [x - eta, x + eta], by its antiderivative."""

    def area(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0, (np.minimum(x, 0) + 1) ** 3 / 6, 1 / 6 + x / 2)

    return (area(x + eta) - area(x - eta)) / (2 * eta)


def slope(x: np.ndarray, eta: float) -> np.ndarray:
    """f_eta'."""
    return (f(x + eta) - f(x - eta)) / (2 * eta)


def solved(x: np.ndarray) -> np.ndarray:
    """f(x, y) with y from the lower-level solver, at every row of x [P, n]."""
    problem, spec = orthant_example(), Spec(jnp.ones(()), jnp.asarray(jnp.inf), jnp.ones(()))
    solve = projected_sgd(EXACT, batch=1).lower_level(problem)
    view = View(jnp.zeros((1, 1)), jnp.arange(1), jnp.asarray(0), jnp.asarray(1))

    @jax.jit
    def values(points: Array, view: View) -> Array:
        return jax.vmap(lambda p: problem.f2(p, solve(p, p, view, spec, 1, keys.root(0)), spec))(points)

    return np.asarray(values(jnp.asarray(x, jnp.float32), view), np.float64)


def walk(eta: float, start: float, rounds: int, server_lr: str) -> np.ndarray:
    """x_0 .. x_{R-1} of ZO-HFL from `start`: one client, one step a solve, which is exact here."""
    one = jnp.ones(1, int)
    federation = Federation(
        jnp.zeros((2, 1)), jnp.arange(2), Window(0 * one[0], 0 * one[0]), Window(0 * one[0], one[0]), Window(one, one),
        Window(one, 0 * one), Spec(jnp.ones(1), jnp.full(1, jnp.inf), jnp.ones(1)),
    )  # fmt: skip
    method = zo_hfl(
        orthant_example(),
        estimator=sphere(smoothing=eta),
        local=projected_sgd(EXACT, batch=1),
        server=descent(server_lr, batch=1),
    )
    return path(method, federation, np.array([start]), rounds=rounds, seeds=1, tau=1.0, cohort=1)[0, :, 0]
