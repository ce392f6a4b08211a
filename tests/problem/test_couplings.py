"""Couplings against their formulas, gradients included."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.problem import huber, on_part, quadratic


class Weighted(NamedTuple):
    weight: float


X = {"head": jnp.array([1.0, 2.0]), "body": jnp.array([[0.5]])}
Y = {"head": jnp.array([0.0, 4.0]), "body": jnp.array([[3.5]])}  # |x - y|^2 = 1 + 4 + 9 = 14


def test_the_quadratic_is_half_the_penalty_times_the_weight_times_the_squared_distance():
    f2 = quadratic(3.0)
    assert f2(X, Y, Weighted(2.0)) == pytest.approx(0.5 * 3 * 2 * 14)
    gradient = jax.grad(f2)(X, Y, Weighted(2.0))
    np.testing.assert_allclose(gradient["head"], 6 * np.array([1.0, -2.0]))
    np.testing.assert_allclose(gradient["body"], [[-18.0]])


def test_a_penalty_of_0_couples_nothing():
    assert quadratic(0.0)(X, Y, Weighted(1.0)) == 0


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.999, 2.0, 2.001, 50.0])
def test_huber_is_quadratic_near_and_linear_far_with_the_slope_to_match(distance):
    penalty, width, weight = 3.0, 2.0, 0.5
    direction = np.array([0.6, 0.8], np.float32)
    x, y = jnp.asarray(distance * direction), jnp.zeros(2)
    f2 = huber(penalty, width)
    near = distance <= width
    value = 0.5 * distance**2 if near else width * (distance - 0.5 * width)
    slope = min(distance, width)
    assert f2(x, y, Weighted(weight)) == pytest.approx(penalty * weight * value, rel=1e-5)
    gradient = jax.grad(f2)(x, y, Weighted(weight))
    np.testing.assert_allclose(gradient, penalty * weight * slope * direction, rtol=1e-5)


def test_the_gradient_of_huber_is_bounded_by_penalty_weight_and_width():
    rng = np.random.default_rng(0)
    gradient = jax.vmap(jax.grad(huber(3.0, 0.1)), in_axes=(0, None, None))
    points = jnp.asarray(10 * rng.standard_normal((100, 7)), jnp.float32)
    assert np.linalg.norm(gradient(points, jnp.zeros(7), Weighted(2.0)), axis=1).max() <= 3 * 2 * 0.1 * (1 + 1e-5)


def test_a_coupling_on_a_part_does_not_see_the_rest():
    f2 = on_part(lambda model: model["head"], quadratic(1.0))
    assert f2(X, Y, Weighted(1.0)) == pytest.approx(0.5 * 5)
    np.testing.assert_array_equal(jax.grad(f2, argnums=1)(X, Y, Weighted(1.0))["body"], [[0.0]])


@pytest.mark.parametrize(
    "make", [lambda: quadratic(-1.0), lambda: quadratic(float("inf")), lambda: huber(1.0, 0.0), lambda: huber(-1.0, 1.0)]
)
def test_impossible_couplings_are_refused(make):
    with pytest.raises(FedtierError):
        make()
