"""Constants against closed forms worked out by hand, and estimates against the exact constants."""

from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.problem import Rows, cross_entropy, mlp, softmax
from fedtier.problem.closed_forms import QuadraticSpec, two_level_quadratic
from fedtier.problem.models import Linear
from fedtier.theory import constants, estimates
from fedtier.theory.numbers import exact


def test_the_two_level_quadratic_by_hand():
    # q = (1, 3), mu = 1, rows with variance (4, 1), batch 2: mu_h = 2, L_h = 4, L_x = 1, sigma^2 = (1*4 + 9*1)/2.
    coupling = constants.quadratic_coupling(2.0, 1.0, 0.5)  # L0 = 2 * 1 * 0.5 = 1
    client = constants.quadratic_client(
        "translated", np.array([1.0, 3.0]), 1.0, coupling, variance=np.array([4.0, 1.0]), batch=2, start=exact(0.5, "ball")
    )
    assert (client.mu_h.value, client.L_h.value, client.L_x.value) == (2.0, 4.0, 1.0)
    assert client.sigma.value == pytest.approx(sqrt(6.5))
    assert {client.mu_h.label, client.L_h.label, client.L_x.label, client.sigma.label} == {"exact"}
    # Lip(z) <= min(3/2, sqrt(3)/2), so L0_imp = sqrt(3)/2.
    assert client.L0_imp.value == pytest.approx(sqrt(3) / 2)
    assert client.L0_imp.label == "bound"
    assert client.local() == pytest.approx((2.0, 4.0, 6.5, 0.25))


@pytest.mark.slow
def test_the_estimates_find_the_exact_constants_of_the_quadratic():
    problem = two_level_quadratic(penalty=1.0, proximity=1.0)
    spec = QuadraticSpec(1.0, jnp.inf, 1.0, jnp.array([1.0, 3.0, 2.0]))
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(64, 3)), jnp.float32)
    x = jnp.zeros(3)
    found = estimates.lower_constants(problem, [x, jnp.ones(3)], rows, spec, 8)
    by_hand = sqrt(float(np.sum(np.array([1.0, 9.0, 4.0]) * np.var(np.asarray(rows, np.float64), axis=0))) / 8)
    assert [number.value for number in found] == pytest.approx([2.0, 4.0, 1.0, by_hand], rel=1e-3)
    assert {number.label for number in found} == {"estimate"}


@pytest.mark.parametrize("ends", [(-2.0, 7.0), (1.0, 1.0), (0.0, 0.0), (-3.0, -1.0), (0.5, 1e4)])
@pytest.mark.parametrize("n", [1, 7, 300])
def test_both_ends_of_the_curvature_of_a_quadratic_are_found_however_many_dimensions_it_has(n, ends):
    q = jnp.linspace(*ends, n) if n > 1 else jnp.array(ends[1:])
    f = lambda x: 0.5 * jnp.sum(q * x["a"] ** 2) + x["b"] * 0.0  # noqa: E731
    flat = 0.0  # the curvature along b
    ((low, high),) = estimates.curvature(f, [{"a": jnp.ones(n), "b": jnp.array(2.0)}], keys.root(0))
    wanted = min(flat, float(q.min())), max(flat, float(q.max()))
    assert (low, high) == pytest.approx(wanted, rel=1e-2, abs=1e-2 * max(map(abs, wanted)))


@pytest.mark.parametrize("n", [7, 300])
def test_a_curvature_that_is_not_finite_is_not_a_number(n):
    ((low, high),) = estimates.curvature(lambda x: jnp.sum(jnp.sqrt(x)), [jnp.zeros(n)], keys.root(0))
    assert np.isnan(low) and np.isnan(high)


def test_a_map_that_does_not_move_has_no_sensitivity():
    assert estimates.sensitivity(lambda x: jnp.zeros(3), jnp.ones(40), keys.root(0)) == 0.0
    twice = estimates.sensitivity(lambda x: jnp.concatenate([3.0 * x, 4.0 * x]), jnp.ones(40), keys.root(0))
    assert twice == pytest.approx(5.0)


def test_the_sampled_slopes_of_a_coupling_are_its_gradients():
    # penalty 2, weight 3, |x - y| = 5 at the farther pair: slope 2 * 3 * 5 in both arguments.
    spec = QuadraticSpec(jnp.asarray(3.0), jnp.inf, 1.0, jnp.ones(2))
    pairs = [(jnp.zeros(2), jnp.array([3.0, 4.0])), (jnp.ones(2), jnp.zeros(2))]
    found = estimates.coupling_constants(two_level_quadratic(penalty=2.0).f2, pairs, spec)
    assert (found.L0_y.value, found.L0_x.value, found.L0_y.label) == (pytest.approx(30.0), pytest.approx(30.0), "estimate")


@pytest.mark.slow
def test_softmax_regression_stays_below_its_bounds_and_reaches_half_the_largest_eigenvalue():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 5))
    rows = Rows(jnp.asarray(inputs, jnp.float32), jnp.asarray(rng.integers(0, 3, 60)))
    loss = cross_entropy(softmax(5, 3, bias=False))
    L = constants.softmax_smoothness(inputs)
    assert L.value == pytest.approx(np.linalg.eigvalsh(inputs.T @ inputs / 60)[-1] / 2)
    assert L.value <= np.max(np.sum(inputs**2, axis=1)) / 2
    points = [Linear(jnp.asarray(scale * rng.normal(size=(3, 5)), jnp.float32)) for scale in (0.0, 1.0, 5.0)]
    assert estimates.gradient_smoothness(lambda w: loss(w, rows), points, keys.root(1)).value <= L.value * (1 + 1e-4)
    single = jax.jit(jax.vmap(lambda x, a, b: jax.grad(loss)(x, Rows(a[None], b[None])), in_axes=(None, 0, 0)))
    for x in points:
        gradients = single(x, rows.inputs, rows.labels)
        assert float(jnp.linalg.norm(gradients.weight.mean(axis=0))) <= constants.softmax_slope(inputs).value
        assert estimates.gradient_noise(gradients, 4).value <= constants.softmax_noise(inputs, 4).value
    # Two classes share all probability in every row: the bound is attained.
    third_out = Linear(jnp.zeros((3, 5)))
    shifted = lambda w: jnp.mean(jax.vmap(lambda a: jax.nn.logsumexp(w.weight @ a + jnp.array([0.0, 0.0, -80.0])))(rows.inputs))  # noqa: E731
    ((_, attained),) = estimates.curvature(shifted, [third_out], keys.root(2))
    assert attained == pytest.approx(L.value, rel=1e-3)


def test_more_features_than_rows_give_the_same_largest_eigenvalue():
    rows = np.random.default_rng(3).normal(size=(4, 9))
    assert constants.softmax_smoothness(rows).value == pytest.approx(np.linalg.norm(rows, 2) ** 2 / 4 / 2)


def test_a_large_matrix_gets_a_bound_that_is_not_below_the_eigenvalue(monkeypatch):
    rows = np.random.default_rng(3).normal(size=(40, 9)) + 2.0
    exact_value = constants.softmax_smoothness(rows).value
    monkeypatch.setattr(constants, "LARGE", 5)
    assert exact_value <= constants.softmax_smoothness(rows).value <= 1.1 * exact_value


@pytest.mark.slow
def test_no_softmax_client_moves_faster_or_farther_than_its_constants():
    rng = np.random.default_rng(5)
    a, labels, mu = rng.normal(size=(30, 2)), rng.integers(0, 3, 30), 0.3
    L, reach = constants.softmax_smoothness(a).value, constants.softmax_slope(a).value / mu
    client = constants.softmax_client(
        "everywhere", a, mu, constants.quadratic_coupling(1.0, 1.0, reach), batch=1, radius=float("inf")
    )
    assert client.motion.difference.value == pytest.approx(L / (L + mu))

    def solutions(x):  # [K, 3, 2], by gradient descent
        y = x.copy()
        for _ in range(600):
            logits = np.einsum("kcd,nd->knc", y, a)
            p = np.exp(logits - logits.max(axis=2, keepdims=True))
            p /= p.sum(axis=2, keepdims=True)
            p[:, np.arange(30), labels] -= 1
            y -= (np.einsum("knc,nd->kcd", p, a) / 30 + mu * (y - x)) / (L + mu)
        return y

    x, d = 3 * rng.normal(size=(2, 100, 3, 2))
    d *= 1e-3 / np.linalg.norm(d, axis=(1, 2), keepdims=True)
    before, after = x - solutions(x), x + d - solutions(x + d)
    assert np.max(np.linalg.norm(before, axis=(1, 2))) <= client.start.value
    assert np.max(np.linalg.norm(after - before, axis=(1, 2))) / 1e-3 <= client.motion.difference.value


def test_the_softmax_solution_lies_in_the_ball_that_the_data_give():
    # mu |y - x| = |grad loss(y)| <= sqrt(2) mean |a|: with rows of length 2 and mu = 4, within sqrt(2) * 2/4.
    rows = np.array([[2.0, 0.0], [0.0, 2.0]])
    coupling = constants.quadratic_coupling(1.0, 1.0, 100.0)
    free = constants.softmax_client("everywhere", rows, 4.0, coupling, batch=1, radius=float("inf"))
    assert free.start.value == pytest.approx(sqrt(2) / 2)
    assert constants.softmax_client("translated", rows, 4.0, coupling, batch=1, radius=0.1).start.value == 0.1
    assert constants.softmax_client("fixed", rows, 4.0, coupling, batch=1, radius=float("inf")).start.label == "absent"
    # Without proximity h is flat somewhere, and the page must say so.
    assert constants.softmax_client("everywhere", rows, 0.0, coupling, batch=1, radius=1.0).mu_h.label == "absent"


@pytest.mark.slow
def test_a_network_is_refused_as_strongly_convex():
    model, rng = mlp(4, 3, hidden=4), np.random.default_rng(0)
    rows = Rows(jnp.asarray(rng.normal(size=(32, 4)), jnp.float32), jnp.asarray(rng.integers(0, 3, 32)))
    loss = cross_entropy(model)
    points = [model.init(keys.root(seed)) for seed in range(1)]
    found = estimates.strong_convexity(lambda y: loss(y, rows), points, keys.root(9))
    assert found.label == "absent" and found.value < 0
    assert f"curvature {found.value:.3g} at a sampled point" in found.note


def test_means_over_clients_by_hand():
    def client(radius):
        return constants.quadratic_client(
            "everywhere",
            np.ones(2),
            1.0,
            constants.huber_coupling(1.0, radius, 1.0),
            variance=np.zeros(2),
            batch=1,
            start=exact(1.0, "by hand"),
        )

    both = constants.Constants(2, exact(1.0, "f1"), exact(0.0, "f1"), (client(1.0), client(3.0)))
    # L0_imp = radius * 1/2: 0.5 and 1.5.
    assert both.mean_L0().value == pytest.approx(1.0)
    assert both.mean_square_L0().value == pytest.approx((0.25 + 2.25) / 2)
