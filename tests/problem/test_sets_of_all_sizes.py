"""Projections in float32 for entries from 1e-30 to 1e38, against NumPy in float64: inside, nearest, and at rest.

A client's solve that explodes passes through all of these sizes, and a projection runs in every step.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.problem import ball, box, half_space, l1_ball, orthant, simplex

EPS = float(np.finfo(np.float32).eps)
N = 50
SIZES = [1e-30, 1e-20, 1e-10, 1e-3, 1.0, 1e3, 1e7, 1e15, 3e19, 1e30, 1e37, 1e38]
NORMAL = np.random.default_rng(7).normal(size=N).astype(np.float32)


BALL = ball()


class Limits(NamedTuple):
    radius: float


def vectors(size):
    """Spread entries, entries that differ in their last digits, one entry above all others: each with both signs."""
    rng = np.random.default_rng(0)
    spread, equal, single = rng.uniform(-1, 1, N), 1 - 4 * EPS * rng.integers(0, 9, N), 1e-3 * rng.uniform(-1, 1, N)
    single[3] = 1.0
    signs = np.where(rng.uniform(size=N) > 0.5, 1, -1)
    return [(size * v).astype(np.float32) for v in (spread, equal, equal * signs, single, -single)]


POINTS = np.stack([v for size in SIZES for v in vectors(size)])


def length(v):
    return np.linalg.norm(v.astype(float), axis=-1)


def projected(Y, x=None, spec=()):
    """For every y of POINTS: y, x, P(y), P(P(y)) and whether the set contains P(y); in float64."""
    x = np.zeros_like(POINTS) if x is None else x
    once, twice, inside = compiled(Y)(POINTS, x, spec)
    return zip(*(np.asarray(a, float) for a in (POINTS, x, once, twice)), np.asarray(inside), strict=True)


@cache
def compiled(Y):
    def one(y, x, spec):
        once = Y.project(y, x, spec)
        return once, Y.project(once, x, spec), Y.contains(once, x, spec)

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None)))


def threshold(y, total):
    """max(y - t, 0) with sum `total`: by bisection on t below the largest entry, where differences are exact."""
    below = y.astype(float) - float(y.max())
    low, high = -float(total), 0.0
    for _ in range(100):
        t = 0.5 * (low + high)
        low, high = (t, high) if np.maximum(below - t, 0).sum() > total else (low, t)
    return np.maximum(below - low, 0)


@pytest.mark.parametrize("radius", [1e-30, 0.7, 1e12, 1e37])
@pytest.mark.parametrize("centre", [0.0, 1.0])
def test_a_ball_of_any_radius_around_any_centre(radius, centre):
    sizes = np.max(np.abs(POINTS), axis=1, keepdims=True)
    centres = (centre * sizes * np.random.default_rng(1).uniform(-0.5, 0.5, POINTS.shape)).astype(np.float32)
    for y, x, once, twice, contained in projected(BALL, centres, Limits(radius)):
        d = (y.astype(np.float32) - x.astype(np.float32)).astype(float)
        expected = y if length(d) <= radius else x + d * (radius / length(d))
        room = 4 * EPS * (radius + length(x))
        assert length(once - x) <= radius + room
        assert np.max(np.abs(once - expected)) <= room
        assert np.max(np.abs(twice - once)) <= room
        assert contained


def test_a_ball_does_not_answer_with_its_centre_where_squares_overflow():
    once = ball(2.0).project(np.full(N, 1e30, np.float32), np.zeros(N, np.float32), ())
    np.testing.assert_allclose(once, 2.0 / np.sqrt(N), rtol=1e-6)


def test_a_point_far_from_a_ball_around_a_large_centre_is_not_in_it():
    x = np.full(N, 1e25, np.float32)
    assert not ball(1.0).contains(2 * x, x, ())
    assert ball(1.0).contains(x, x, ())


@pytest.mark.parametrize("radius", [1e-30, 100.0, 1e37])
def test_an_l1_ball_of_any_radius(radius):
    for y, _, once, twice, contained in projected(l1_ball(radius)):
        expected = y if np.sum(np.abs(y)) <= radius else np.sign(y) * threshold(np.abs(y), radius)
        assert np.sum(np.abs(once)) <= radius * (1 + 8 * EPS)
        assert np.max(np.abs(once - expected)) <= 8 * EPS * radius
        assert np.max(np.abs(twice - once)) <= 8 * EPS * radius
        assert contained


@pytest.mark.parametrize("total", [1e-30, 1.0, 1e37])
def test_a_simplex_of_any_total(total):
    for y, _, once, twice, contained in projected(simplex(total)):
        assert np.all(once >= 0)
        assert np.sum(once) == pytest.approx(total, rel=8 * EPS)
        assert np.max(np.abs(once - threshold(y, total))) <= 8 * EPS * total
        assert np.max(np.abs(twice - once)) <= 8 * EPS * total
        assert contained


@pytest.mark.slow
def test_the_sum_stays_right_when_many_small_entries_are_kept_beside_a_large_one():
    # 100,000 kept entries of about 5e-6 and one of 1/2: the threshold alone is off by 3e-8, times 100,000 in the sum.
    y = np.full(100_001, 0.0, np.float32)
    y[1:] = -0.5 + 1e-5 * np.random.default_rng(2).uniform(size=100_000)
    once = np.asarray(simplex(1.0).project(y, y, ()), float)
    assert np.sum(once > 0) > 50_000
    assert np.sum(once) == pytest.approx(1.0, rel=1e-5)
    assert np.max(np.abs(once - threshold(y, 1.0))) <= 4 * EPS


@pytest.mark.parametrize(
    ("offset", "scale"), [(-1e30, 1.0), (-1.0, 1e25), (0.0, 1.0), (1e-30, 1e-25), (1.0, 1e-25), (1.0, 1.0), (1e30, 1e25)]
)
def test_a_half_space_with_a_normal_of_any_length(offset, scale):
    normal = (scale * NORMAL).astype(np.float32)
    unit, distance = normal / length(normal), offset / length(normal)
    for y, _, once, twice, contained in projected(half_space(normal, offset)):
        expected = y - max(0.0, unit @ y - distance) * unit
        # Rounding in y - excess unit is of the size of y; what remains above the plane is of the size of the result.
        assert np.max(np.abs(once - expected)) <= 4 * EPS * (length(y) + abs(distance))
        room = 4 * EPS * (length(once) + abs(distance))
        assert unit @ once <= distance + room
        assert np.max(np.abs(twice - once)) <= room
        assert contained


def test_a_point_far_above_a_plane_is_not_in_the_half_space():
    assert not half_space(NORMAL, 1.0).contains((1e37 * NORMAL).astype(np.float32), NORMAL, ())


def test_a_plane_beyond_the_numbers_of_float32_is_refused():
    with pytest.raises(FedtierError, match="offset"):
        half_space(1e-20 * NORMAL, -1e30)


@pytest.mark.parametrize(("Y", "low", "high"), [(box(-0.5, 2.0), -0.5, 2.0), (orthant(), 0.0, np.inf)], ids=["box", "orthant"])
def test_boxes_and_the_orthant_are_exact(Y, low, high):
    for y, _, once, twice, contained in projected(Y):
        np.testing.assert_array_equal(once, np.clip(y, low, high))
        np.testing.assert_array_equal(twice, once)
        assert contained


AXIS = np.array([1.0, 2.0, 0.0, 2.0])
JACOBIANS = {
    # |y| > radius: radius/|y| (I - u u^T), u = y/|y|
    "ball": (ball(2.0), lambda y: 2.0 / np.linalg.norm(y) * (np.eye(4) - np.outer(y, y) / (y @ y))),
    # kept entries: I - 1/k; here all entries lie within total of each other
    "simplex": (simplex(20.0), lambda y: np.eye(4) - 0.25),
    "l1 ball": (l1_ball(9.0), lambda y: np.eye(4) - 0.25 * np.outer(np.sign(y), np.sign(y))),
    "half-space": (half_space(AXIS, -1.0), lambda y: np.eye(4) - np.outer(AXIS, AXIS) / 9),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", JACOBIANS)
@pytest.mark.checked
def test_the_derivative_is_that_of_the_closed_form(name):
    Y, jacobian = JACOBIANS[name]
    y = np.array([3.0, 4.0, -2.5, 3.5], np.float32)
    for derivative in (jax.jacrev, jax.jacfwd):
        found = derivative(lambda a: Y.project(a, jnp.zeros(4), ()))(y)
        np.testing.assert_allclose(found, jacobian(y.astype(float)), atol=2e-6)


@pytest.mark.parametrize("radius", [0.0, 1.0, float("inf")])
def test_the_derivative_of_a_ball_at_its_centre_is_finite(radius):
    found = jax.jacrev(lambda a: ball(radius).project(a, jnp.ones(3), ()))(jnp.ones(3))
    np.testing.assert_array_equal(found, np.eye(3))
