"""The closed forms of the two-level quadratic against numerical solves."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from fedtier.errors import FedtierError
from fedtier.problem.closed_forms import ClosedForm, QuadraticSpec, orthant_example, two_level_quadratic

M, N, ROWS = 3, 4, 6
PENALTY, PROXIMITY = 1.7, 0.6
rng = np.random.default_rng(5)
SERVER = rng.standard_normal((ROWS, N)).astype(np.float32)
CLIENTS = (rng.standard_normal((M, 1, N)) * 2 + rng.standard_normal((M, ROWS, N))).astype(np.float32)
CURVATURE = rng.uniform(0.5, 2.0, (M, N)).astype(np.float32)
WEIGHT = np.array([0.5, 1.0, 1.5], np.float32)
X = rng.standard_normal(N).astype(np.float32)
PROBLEM = two_level_quadratic(penalty=PENALTY, proximity=PROXIMITY)


def closed() -> ClosedForm:
    means = SERVER.mean(axis=0), CLIENTS.mean(axis=1)
    return ClosedForm(*map(jnp.asarray, means), jnp.asarray(CURVATURE), jnp.asarray(WEIGHT), PENALTY, PROXIMITY)


def spec(i: int) -> QuadraticSpec:
    return QuadraticSpec(WEIGHT[i], np.inf, 1.0, jnp.asarray(CURVATURE[i]))


def lower(x: np.ndarray, i: int) -> np.ndarray:
    """argmin of h_i, by a general solver on a formula of our own, in float64."""
    q, rows, x = CURVATURE[i].astype(float), CLIENTS[i].astype(float), x.astype(float)

    def h(y: np.ndarray) -> float:
        return 0.5 * np.mean(np.sum(q * (y - rows) ** 2, axis=1)) + 0.5 * PROXIMITY * np.sum((y - x) ** 2)

    def slope(y: np.ndarray) -> np.ndarray:
        return q * np.mean(y - rows, axis=0) + PROXIMITY * (y - x)

    return minimize(h, x, jac=slope, method="BFGS", options={"gtol": 1e-9}).x


def objective(x: np.ndarray) -> float:
    def solved(i: int) -> np.ndarray:  # the stationary point of h_i by linear algebra, without the noise of a solver
        q = CURVATURE[i].astype(float)
        return np.linalg.solve(np.diag(q) + PROXIMITY * np.eye(N), q * CLIENTS[i].astype(float).mean(axis=0) + PROXIMITY * x)

    coupling = [0.5 * PENALTY * WEIGHT[i] * np.sum((x - solved(i)) ** 2) for i in range(M)]
    return 0.5 * np.mean(np.sum((x - SERVER) ** 2, axis=1)) + np.mean(coupling)


def test_the_problem_is_the_formula_in_its_docstring():
    y = X + 1.0
    fit = 0.5 * np.mean(np.sum(CURVATURE[1] * (y - CLIENTS[1]) ** 2, axis=1)) + 0.5 * PROXIMITY * N
    assert PROBLEM.h(jnp.asarray(X), jnp.asarray(y), jnp.asarray(CLIENTS[1]), spec(1)) == pytest.approx(fit, rel=1e-5)
    assert PROBLEM.f2(jnp.asarray(X), jnp.asarray(y), spec(2)) == pytest.approx(0.5 * PENALTY * 1.5 * N, rel=1e-5)
    expected = 0.5 * np.mean(np.sum((X - SERVER) ** 2, axis=1))
    assert PROBLEM.f1(jnp.asarray(X), jnp.asarray(SERVER)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_solution_of_the_lower_level_is_what_a_general_solver_finds():
    found = np.stack([lower(X, i) for i in range(M)])
    np.testing.assert_allclose(closed().solution(jnp.asarray(X)), found, atol=1e-4)
    for i in range(M):
        y = closed().solution(jnp.asarray(X))[i]
        gradient = jax.grad(PROBLEM.h, argnums=1)(jnp.asarray(X), y, jnp.asarray(CLIENTS[i]), spec(i))
        np.testing.assert_allclose(gradient, np.zeros(N), atol=1e-5)


@pytest.mark.slow
def test_the_implicit_function_and_its_gradient_agree_with_automatic_differentiation():
    x = jnp.asarray(X)
    expected = [PROBLEM.f2(x, jnp.asarray(lower(X, i), jnp.float32), spec(i)) for i in range(M)]
    np.testing.assert_allclose(closed().implicit(x), expected, rtol=1e-4)
    np.testing.assert_allclose(closed().implicit_gradient(x), jax.jacobian(closed().implicit)(x), rtol=1e-4, atol=1e-5)


def test_the_optimum_is_where_a_general_solver_ends_and_the_gradient_vanishes():
    best = closed().optimum()
    np.testing.assert_allclose(closed().gradient(best), np.zeros(N), atol=1e-5)
    found = minimize(objective, X.astype(float), method="BFGS", options={"gtol": 1e-5}).x
    np.testing.assert_allclose(best, found, atol=1e-3)


def test_without_a_penalty_the_optimum_is_the_server_mean():
    free = closed()._replace(penalty=0.0)
    np.testing.assert_allclose(free.optimum(), SERVER.mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("x", [[-2.0, 0.5], [0.0, 0.0], [3.0, -0.25]])
def test_the_appendix_example_has_the_published_solution_and_value(x):
    problem, x = orthant_example(), jnp.asarray(x)
    y = problem.Y.project(x, x, SimpleNamespace())
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    step = x - 0.5 * jax.grad(problem.h, argnums=1)(x, x + 3.0, (), ()) + 3.0  # h is |y - x|^2: one half step lands on x
    np.testing.assert_allclose(step, x, atol=1e-6)
    expected = 0.5 * sum((v + 1 - max(v, 0.0)) ** 2 for v in np.asarray(x).tolist())
    assert problem.f2(x, y, ()) == pytest.approx(expected)
    assert problem.f1(x, ()) == 0


def test_the_appendix_example_is_not_convex():
    problem = orthant_example()

    def f(v: float) -> float:
        x = jnp.array([v])
        return float(problem.f2(x, problem.Y.project(x, x, ()), ()))

    assert f(0.0) > 0.5 * (f(-1.0) + f(1.0)) - 1e-9 and f(0.0) == pytest.approx(0.5)


def test_negative_penalties_are_refused():
    with pytest.raises(FedtierError):
        two_level_quadratic(penalty=-1.0)
