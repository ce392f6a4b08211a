"""H steps as a map of x, for an h that curves downwards: the bound (30) is attained and never passed, the estimate unbiased."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.schedules import constant, inverse
from fedtier.theory.constants import LowerConstants, general_client, quadratic_coupling
from fedtier.theory.finite import finite_motion, growth
from fedtier.theory.numbers import absent, exact

K, MU = 2.0, 0.5  # loss = mean of cos(K y_j): curvature in [-K^2, K^2]; proximity MU


def solve(x, steps, schedule, project=lambda y, x: y):
    """H steps on loss + MU/2 |y - x|^2 from x, by hand."""
    y = x
    for t in range(steps):
        y = project(y - schedule(jnp.float32(t)) * (-K * jnp.sin(K * y) + MU * (y - x)), x)
    return y


def client(low, high, in_x=MU):
    mu = absent(low, "(2)", "curves downwards") if low <= 0 else exact(low, "(2)")
    lower = LowerConstants(mu, exact(high, "(2)"), exact(in_x, "(2)"), exact(0.0, "(2)"))
    return general_client("everywhere", lower, quadratic_coupling(1.0, 1.0, 1.0), exact(1.0, "(2)"))


@pytest.mark.parametrize("schedule", [constant(0.05), inverse(0.3)])
def test_a_quadratic_that_curves_downwards_attains_the_bound(schedule):
    """h = -rho/2 y^2 + MU/2 (y - x)^2: y^H is linear in x, and the recursion is the slope itself."""
    rho, steps = 1.5, 30
    slope = 1.0
    for t in range(steps):
        a = float(schedule(t))
        slope = slope - a * ((MU - rho) * slope - MU)
    found = growth(schedule, MU - rho, MU - rho, MU, 1.0, steps)
    np.testing.assert_allclose(found[-1], slope, rtol=1e-6)


@pytest.mark.parametrize("schedule", [constant(0.05), inverse(0.3)])
@pytest.mark.parametrize("dependence", ["everywhere", "translated", "fixed"])
def test_no_solve_moves_faster_and_one_moves_more_than_half_as_fast(dependence, schedule):
    """The wave's top is where it curves down most: there two solves part as fast as the bound says, but for the set."""
    project = {
        "everywhere": lambda y, x: y,
        "translated": lambda y, x: x + jnp.clip(y - x, -0.4, 0.4),
        "fixed": lambda y, x: jnp.clip(y, -1.0, 1.0),
    }[dependence]
    steps = 12
    points = jnp.concatenate([jnp.zeros((1, 3)), jax.random.normal(jax.random.key(0), (40, 3))])
    jacobian = jax.vmap(jax.jacfwd(lambda x: solve(x, steps, schedule, project)))(points)
    difference = jnp.eye(3)[None] - jacobian
    found = finite_motion(dependence, client(MU - K**2, MU + K**2), schedule, steps, warm=False)
    for number, matrices in ((found.y, jacobian), (found.difference, difference)):
        seen = float(jnp.max(jnp.linalg.norm(matrices, ord=2, axis=(1, 2))))
        assert seen <= number.value * (1 + 1e-5)
        assert number.label == "estimate"  # the curvature below 0 was sampled
    if dependence == "everywhere":
        assert float(jnp.linalg.norm(jacobian[0], ord=2)) > 0.5 * found.y.value


def test_falling_steps_keep_it_below_a_power_of_h_and_constant_ones_do_not():
    H = np.array([100, 200, 400])
    rho, c = 1.5, 0.5
    falling, even = (growth(schedule, -rho, 1.0, 0.0, 1.0, 400)[H] for schedule in (inverse(c), constant(c)))
    np.testing.assert_allclose(falling[1:] / falling[:-1], 2 ** (c * rho), rtol=0.01)
    np.testing.assert_allclose(np.diff(np.log(even)) / np.diff(H), np.log(1 + c * rho), rtol=1e-6)


def test_a_warm_start_and_a_product_of_sets_and_one_that_says_nothing():
    one = client(0.0, 1.0)
    cold, warm = (finite_motion("fixed", one, constant(0.1), 1, warm=warm) for warm in (False, True))
    assert cold.y.value == pytest.approx(1 + 0.1 * MU) and warm.y.value == pytest.approx(0.1 * MU)
    assert finite_motion("translated", one, constant(0.1), 1, warm=True).difference.value == pytest.approx(1 + 0.1 * (MU + 1))
    assert finite_motion("mixed", one, constant(0.1), 1, warm=False).difference.value == pytest.approx(2 + 0.1 * (MU + 1))
    assert finite_motion("unknown", one, constant(0.1), 1, warm=False).y.label == "absent"


def test_the_two_point_estimate_through_h_steps_has_no_bias_whatever_h_is():
    """(29) in two dimensions: the mean of g over the circle is the gradient of the mean over the disc, both by quadrature."""
    eta, schedule = 0.3, constant(0.2)

    def phi(x):
        return 0.5 * jnp.sum((x - solve(x, 6, schedule)) ** 2)

    angles = np.linspace(0, 2 * np.pi, 256, endpoint=False)
    circle = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1), jnp.float32)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    radii, weights = (nodes + 1) / 2, weights * (nodes + 1) / 2  # 2 r dr over the unit disc, halved by the change of variable
    x = jnp.asarray([[0.4, -0.2]])
    values = jax.jit(jax.vmap(phi))
    g = (values(x + eta * circle) - values(x - eta * circle))[:, None] * circle * (2 / (2 * eta))
    inside = jax.jit(jax.vmap(jax.grad(phi)))
    smoothed = sum(
        float(w) * jnp.mean(inside(x + eta * float(r) * circle), axis=0) for r, w in zip(radii, weights, strict=True)
    )
    np.testing.assert_allclose(np.mean(g, axis=0), smoothed, rtol=2e-4)
    assert float(jnp.linalg.norm(smoothed - jax.grad(phi)(x[0]))) > 0.01  # and it is not the gradient itself
