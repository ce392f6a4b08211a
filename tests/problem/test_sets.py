"""Projections: feasible, idempotent, non-expansive, and the nearest point, by references written in NumPy and SciPy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedtier.errors import FedtierError
from fedtier.problem import ConstraintSet, ball, box, everywhere, half_space, l1_ball, orthant, product, simplex

N = 5
NORMAL = np.array([1.0, -2.0, 0.5, 0.0, 3.0], np.float32)
LOWER, UPPER = np.linspace(-1, 0, N, dtype=np.float32), np.linspace(0, 2, N, dtype=np.float32)


class Limits(NamedTuple):
    radius: float


SETS = {
    "everywhere": everywhere(),
    "ball": ball(1.5),
    "ball of the client's radius": ball(),
    "ball of radius 0": ball(0.0),
    "infinite ball": ball(float("inf")),
    "box of numbers": box(-1.0, 0.5),
    "box of arrays": box(LOWER, UPPER),
    "orthant": orthant(),
    "simplex": simplex(2.0),
    "l1 ball": l1_ball(1.5),
    "half-space": half_space(NORMAL, 0.7),
}
SPEC = Limits(radius=0.8)
points = arrays(np.float32, N, elements=st.floats(-10, 10, width=32))
each_set = pytest.mark.parametrize("name", SETS)
few = settings(max_examples=25, deadline=None)
PROJECT = {name: jax.jit(lambda y, x, Y=Y: Y.project(y, x, SPEC)) for name, Y in SETS.items()}


def project(name: str, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(PROJECT[name](y, x))


@pytest.mark.slow
@each_set
@few
@given(y=points, x=points)
def test_a_projection_lies_in_the_set_and_projecting_again_changes_nothing(name, y, x):
    once = project(name, y, x)
    assert SETS[name].contains(once, x, SPEC)
    np.testing.assert_allclose(project(name, once, x), once, atol=2e-5)


@each_set
@few
@given(y=points, z=points, x=points)
def test_a_projection_brings_two_points_no_further_apart(name, y, z, x):
    after = np.linalg.norm(project(name, y, x).astype(float) - project(name, z, x))
    assert after <= np.linalg.norm(y.astype(float) - z) + 5e-5


def nearest_in_ball(y, x, radius):
    d = y - x
    length = np.sqrt(np.sum(d**2))
    return y if length <= radius else x + d * (radius / length)


def nearest_on_simplex(y, total):
    """By bisection on the multiplier: sum max(y - t, 0) = total."""
    low, high = y.min() - total, y.max()
    for _ in range(200):
        t = 0.5 * (low + high)
        low, high = (t, high) if np.maximum(y - t, 0).sum() > total else (low, t)
    return np.maximum(y - low, 0)


def nearest_in_l1_ball(y, radius):
    """Soft thresholding, by bisection on the threshold."""
    if np.abs(y).sum() <= radius:
        return y
    return np.sign(y) * nearest_on_simplex(np.abs(y), radius)


def nearest_in_half_space(y, normal, offset):
    return y - max(0.0, (normal @ y - offset) / (normal @ normal)) * normal


REFERENCES = {
    "everywhere": lambda y, x: y,
    "ball": lambda y, x: nearest_in_ball(y, x, 1.5),
    "ball of the client's radius": lambda y, x: nearest_in_ball(y, x, 0.8),
    "ball of radius 0": lambda y, x: x,
    "infinite ball": lambda y, x: y,
    "box of numbers": lambda y, x: np.minimum(np.maximum(y, -1.0), 0.5),
    "box of arrays": lambda y, x: np.minimum(np.maximum(y, LOWER), UPPER),
    "orthant": lambda y, x: np.where(y > 0, y, 0),
    "simplex": lambda y, x: nearest_on_simplex(y, 2.0),
    "l1 ball": lambda y, x: nearest_in_l1_ball(y, 1.5),
    "half-space": lambda y, x: nearest_in_half_space(y, NORMAL.astype(float), 0.7),
}


@each_set
@few
@given(y=points, x=points)
def test_a_projection_is_the_nearest_point_of_the_set(name, y, x):
    expected = REFERENCES[name](y.astype(float), x.astype(float))
    np.testing.assert_allclose(project(name, y, x), expected, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "constraints", "bounds"),
    [
        ("ball", lambda x: [{"type": "ineq", "fun": lambda z: 1.5**2 - np.sum((z - x) ** 2)}], None),
        ("box of arrays", lambda x: [], list(zip(LOWER, UPPER, strict=True))),
        ("simplex", lambda x: [{"type": "eq", "fun": lambda z: np.sum(z) - 2.0}], [(0, None)] * N),
        ("half-space", lambda x: [{"type": "ineq", "fun": lambda z: 0.7 - NORMAL @ z}], None),
    ],
)
def test_a_general_solver_finds_no_nearer_point(name, constraints, bounds):
    rng = np.random.default_rng(0)
    for _ in range(5):
        y, x = 3 * rng.standard_normal((2, N)).astype(np.float32)
        start = REFERENCES[name](x.astype(float), x.astype(float))
        solved = minimize(
            lambda z, y=y: np.sum((z - y) ** 2), start, method="SLSQP", constraints=constraints(x), bounds=bounds, tol=1e-12
        )
        np.testing.assert_allclose(project(name, y, x), solved.x, atol=2e-4)


def test_the_l1_projection_satisfies_the_optimality_conditions():
    rng = np.random.default_rng(1)
    for _ in range(20):
        y = 2 * rng.standard_normal(N).astype(np.float32)
        z = project("l1 ball", y, y)
        slope = (y - z) @ z  # the support function of the ball at y - z is radius times the largest entry
        assert slope == pytest.approx(1.5 * np.abs(y - z).max(), abs=1e-4)


def test_points_outside_are_not_contained():
    far, x = 9 * np.ones(N, np.float32), np.zeros(N, np.float32)
    for name in set(SETS) - {"everywhere", "infinite ball", "orthant"}:
        assert not SETS[name].contains(far, x, SPEC), name
    assert not orthant().contains(-far, x, SPEC)


def test_a_ball_treats_the_whole_tree_as_one_vector():
    x = {"a": jnp.zeros(1), "b": jnp.zeros(1)}
    out = ball(1.0).project({"a": jnp.full(1, 3.0), "b": jnp.full(1, 4.0)}, x, SPEC)
    np.testing.assert_allclose([out["a"][0], out["b"][0]], [0.6, 0.8], rtol=1e-6)


def test_every_client_has_its_own_radius_under_vmap():
    y, x = jnp.array([[3.0, 4.0]] * 4), jnp.zeros((4, 2))
    out = jax.vmap(ball().project)(y, x, Limits(jnp.array([0.0, 1.0, 5.0, jnp.inf])))
    np.testing.assert_allclose(out, [[0, 0], [0.6, 0.8], [3, 4], [3, 4]], rtol=1e-6)


def test_radius_0_and_an_infinite_radius_are_exact_even_at_the_centre():
    x = jnp.array([1.0, 2.0])
    for radius in (0.0, float("inf")):
        np.testing.assert_array_equal(ball(radius).project(x, x, SPEC), x)
    np.testing.assert_array_equal(ball(float("inf")).project(2 * x, x, SPEC), 2 * x)


@pytest.mark.slow
def test_a_product_projects_every_leaf_on_its_own_set():
    Y = product({"w": ball(), "b": orthant(), "free": everywhere(), "nested": simplex()})
    y = {
        "w": jnp.array([3.0, 4.0]),
        "b": jnp.array([-1.0, 2.0]),
        "free": jnp.array([-7.0]),
        "nested": [jnp.array([3.0]), jnp.zeros(1)],
    }
    out = Y.project(y, jax.tree.map(jnp.zeros_like, y), Limits(1.0))
    np.testing.assert_allclose(out["w"], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(out["b"], [0, 2])
    np.testing.assert_array_equal(out["free"], [-7])
    np.testing.assert_allclose([out["nested"][0][0], out["nested"][1][0]], [1, 0], atol=1e-6)
    assert Y.dependence == "mixed" and Y.name == "product of orthant, everywhere, simplex, ball"
    assert Y.contains(out, jax.tree.map(jnp.zeros_like, y), Limits(1.0))
    assert not Y.contains(y, jax.tree.map(jnp.zeros_like, y), Limits(1.0))


def test_every_set_says_how_it_depends_on_x_and_how_far_it_reaches():
    infinite = float("inf")
    assert everywhere().dependence == ball(infinite).dependence == "everywhere"
    for Y in (orthant(), box(0.0, 1.0), simplex(), l1_ball(1.0), half_space(NORMAL, 0.7)):
        assert (Y.dependence, Y.reach(SPEC)) == ("fixed", infinite)  # x may lie anywhere, so may its distance from them
    assert (ball().dependence, ball().reach(SPEC), ball(2.0).reach(SPEC)) == ("translated", 0.8, 2.0)
    np.testing.assert_array_equal(ball().reach(Limits(np.array([0.0, 3.0]))), [0, 3])


def test_a_product_depends_on_x_as_its_parts_do_together():
    def together(**sets):
        return product(sets).dependence

    assert together(w=everywhere(), b=everywhere()) == "everywhere"
    assert together(w=l1_ball(1.0), b=everywhere()) == "fixed"
    assert together(w=ball(), b=ball(1.0)) == together(w=ball(), b=everywhere()) == "translated"  # all of space is x + itself
    assert together(w=ball(), b=orthant()) == together(w=ball(), b=product([orthant(), ball()])) == "mixed"
    # |y - x|^2 is the sum over the leaves: 0.8^2 + 0.6^2 = 1.
    assert float(product({"w": ball(), "b": ball(0.6)}).reach(SPEC)) == pytest.approx(1.0)
    assert float(product({"w": ball(), "b": orthant()}).reach(SPEC)) == float("inf")


def test_a_set_of_ones_own_is_unknown_until_it_says_more():
    own = ConstraintSet("tube", lambda y, x, spec: y, lambda y, x, spec, tolerance=0.0: True)
    assert own.dependence == "unknown" and own.reach is None
    beside = product({"w": own, "b": orthant()})
    assert beside.dependence == "unknown" and beside.reach is None


def test_a_box_of_one_leaf_trees_and_of_a_number_beside_a_tree():
    y = {"w": jnp.array([-3.0, 3.0])}
    np.testing.assert_array_equal(box({"w": np.zeros(2)}, {"w": np.ones(2)}).project(y, y, SPEC)["w"], [0, 1])
    np.testing.assert_array_equal(box({"w": 0.0}, 1.0).project(y, y, SPEC)["w"], [0, 1])
    np.testing.assert_array_equal(box(-float("inf"), {"w": np.ones(2)}).project(y, y, SPEC)["w"], [-3, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ball(-1.0),
        lambda: ball(float("nan")),
        lambda: box(1.0, 0.0),
        lambda: box(0.0, {"a": 1.0, "b": -1.0}),
        lambda: box({"a": 0.0}, {"a": 1.0, "b": 1.0}),
        lambda: simplex(0.0),
        lambda: l1_ball(-1.0),
        lambda: half_space(np.zeros(3), 1.0),
        lambda: half_space(np.ones(3), float("nan")),
        lambda: product({}),
        lambda: product({"w": 3.0}),
    ],
)
def test_impossible_sets_are_refused(make):
    with pytest.raises(FedtierError):
        make()
