"""Smoothing: every constant is attained by a function we can name, and no function exceeds it."""

from math import pi, sqrt

import numpy as np
import pytest

from fedtier.theory import sphere
from fedtier.theory.radial import BallForm, first_coordinate


def directions(n, draws, seed=0):
    v = np.random.default_rng(seed).normal(size=(draws, n))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def two_point(f, x, eta, v):
    n = v.shape[1]
    return n / (2 * eta) * (f(x + eta * v) - f(x - eta * v))[:, None] * v


@pytest.mark.parametrize(("n", "value"), [(1, 1.0), (2, 2 / pi), (3, 0.5), (5, 3 / 8)])
def test_the_mean_coordinate_of_the_sphere_in_low_dimensions_by_hand(n, value):
    # n = 2: mean |cos| = 2/pi; n = 3: v_1 is uniform on [-1, 1]; n = 5: density 3/4 (1 - s^2), mean |s| = 3/8.
    assert sphere.mean_coordinate(n) == pytest.approx(value)


def test_the_mean_coordinate_in_high_dimension_is_the_gaussian_one():
    assert sphere.mean_coordinate(10_000) == pytest.approx(sqrt(2 / (pi * 10_000)), rel=1e-4)


def test_the_smoothness_constant_is_attained_at_a_kink_and_half_of_it_is_refuted():
    # f = L0 |x_1| in n = 1: f_eta(x) = L0 (x^2 + eta^2)/(2 eta) near 0, so f_eta'' = L0/eta, the constant itself.
    assert sphere.smoothness(3.0, 1, 0.5) == pytest.approx(6.0)
    # n = 3: grad f_eta(x)_1 = (n/eta) E[L0 |x_1 + eta v_1| v_1], v_1 uniform on [-1, 1] = L0 (3/(2 eta)) x_1 to first order.
    s = (np.arange(200_000) + 0.5) / 100_000 - 1
    x, eta = 1e-3, 0.5
    slope = 3 / eta * np.mean(np.abs(x + eta * s) * s) / x
    assert slope == pytest.approx(sphere.smoothness(1.0, 3, eta), rel=1e-4)
    assert slope > 0.5 * sphere.smoothness(1.0, 3, eta)
    assert sphere.smoothness(1.0, 3, eta) <= sphere.paper_smoothness(1.0, 3, eta)


def test_the_gap_is_attained_by_the_norm():
    # f = |x| at 0: f_eta(0) = eta E|u| = eta n/(n + 1) for u uniform in the ball.
    rng = np.random.default_rng(0)
    for n in (1, 2, 10):
        lengths = rng.uniform(size=200_000) ** (1 / n)
        assert np.mean(0.3 * lengths) == pytest.approx(sphere.gap(1.0, n, 0.3), rel=5e-3)


def test_the_second_moment_of_a_linear_function_is_n_times_its_slope_squared():
    # g = n <a, v> v, |g|^2 = n^2 <a, v>^2, mean n |a|^2: the bound with equality, so half of it is refuted.
    for n in (2, 10, 300):
        v = directions(n, 40_000)
        g = two_point(lambda p: 2.0 * p[:, 0], np.zeros(n), 0.1, v)
        measured = np.mean(np.sum(g**2, axis=1))
        assert measured == pytest.approx(sphere.second_moment(2.0, n), rel=0.05)
        assert measured > 0.6 * sphere.second_moment(2.0, n)
        assert measured < sphere.paper_second_moment(2.0, n)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_no_lipschitz_function_exceeds_the_second_moment_bound(n):
    rng = np.random.default_rng(n)
    v = directions(n, 20_000, seed=n)
    a = rng.normal(size=(6, n))
    functions = [
        lambda p: np.abs(p[:, 0]),
        lambda p: np.linalg.norm(p, axis=1),
        lambda p: np.linalg.norm(np.maximum(p, 0), axis=1),  # distance to the orthant
        lambda p: np.max(p @ (a / np.linalg.norm(a, axis=1, keepdims=True)).T, axis=1),
        lambda p: np.sin(p[:, 0]),
    ]
    for f in functions:
        for x in (np.zeros(n), 0.05 * rng.normal(size=n)):
            squares = np.sum(two_point(f, x, 0.2, v) ** 2, axis=1)
            error = 4 * np.std(squares) / sqrt(len(squares))
            assert np.mean(squares) <= sphere.second_moment(1.0, n) + error + 1e-9


def test_the_paper_s_constant_comes_from_the_tail_of_a_lipschitz_function_and_is_forty_times_too_large():
    # n^2/eta^2 times the integral over a of P(|h - E h|^2 >= a) <= 2 sqrt(2 pi) exp(-n a/(8 eta^2)), with L0 = 1 and n = 7.
    n, eta = 7, 0.3
    scale = 8 * eta**2 / n
    a = (np.arange(400_000) + 0.5) / 10_000 * scale  # up to 40 scales
    tail = np.sum(2 * sqrt(2 * pi) * np.exp(-a / scale)) * scale / 10_000
    assert sphere.paper_second_moment(1.0, n) == pytest.approx(n**2 / eta**2 * tail, rel=1e-4)
    assert sphere.paper_second_moment(1.0, n) / sphere.second_moment(1.0, n) == pytest.approx(40.1, abs=0.05)


def test_the_estimate_is_unbiased_for_the_smoothed_gradient_and_the_missing_factor_is_not():
    # n = 3, f = psi(|x - b|) with a kink; the exact smoothed gradient is an integral over v_1, uniform on [-1, 1].
    form = BallForm(np.zeros(3), np.zeros((1, 3)), np.ones(1), np.ones(1), np.array([0.5]), 1.0, 1.0)
    x, eta = np.array([1.0, 0.2, 0.0]), 0.4
    f = lambda p: 0.5 * np.minimum(0.5 * np.linalg.norm(p, axis=1), 0.5) ** 2  # noqa: E731
    g = two_point(f, x, eta, directions(3, 400_000))
    exact = form.client_gradient(x, eta, 0)
    assert np.mean(g, axis=0) == pytest.approx(exact, abs=4 * np.std(g) / sqrt(400_000))
    s = (np.arange(100_000) + 0.5) / 50_000 - 1
    t = np.linalg.norm(x)
    by_hand = 3 / eta * np.mean(0.5 * np.minimum(0.5 * np.sqrt(t**2 + 2 * t * eta * s + eta**2), 0.5) ** 2 * s)
    assert np.linalg.norm(exact) == pytest.approx(by_hand, rel=1e-4)
    assert np.linalg.norm(np.mean(g, axis=0) / 3 - exact) > 0.5 * np.linalg.norm(exact)  # without the factor n


@pytest.mark.parametrize("n", [2, 3, 50, 10_000])
def test_the_quadrature_gives_the_moments_of_the_sphere(n):
    v, weights = first_coordinate(n)
    assert np.sum(weights * v**2) == pytest.approx(1 / n, rel=1e-4)
    assert np.sum(weights * np.abs(v)) == pytest.approx(sphere.mean_coordinate(n), rel=1e-4)


def test_the_cohort_average_is_unbiased_and_its_variance_is_below_the_bound():
    # All 10 cohorts of 2 out of 5 clients with linear f_i = <a_i, x>: E|mean g - mean a|^2 by enumeration and algebra.
    from itertools import combinations

    a, n = np.random.default_rng(0).normal(size=(5, 3)), 3
    target, cohorts = a.mean(axis=0), list(combinations(range(5), 2))
    means = np.array([a[list(c)].mean(axis=0) for c in cohorts])
    assert means.mean(axis=0) == pytest.approx(target)
    # var of g_i for a linear function: (n - 1)|a_i|^2; a cohort's mean of 2 independent ones: a quarter of the sum.
    directions_part = np.mean([sum((n - 1) * np.sum(a[i] ** 2) for i in c) / 4 for c in cohorts])
    total = directions_part + np.mean(np.sum((means - target) ** 2, axis=1))
    assert total <= sphere.cohort_variance(float(np.mean(np.sum(a**2, axis=1))), n, 2)
    assert total > 0.5 * sphere.cohort_variance(float(np.mean(np.sum(a**2, axis=1))), n, 2)


def test_the_bias_of_inexact_solves_is_n_times_smaller_than_their_second_moment_and_attained():
    # f2 = L0_y y with y+ wrong by +e when v_1 > 0 and by -e otherwise (y- the opposite): bias = n/eta L0_y e E|v_1| along e_1.
    n, eta, e = 20, 0.1, 0.01
    v = directions(n, 200_000)
    wrong = np.where(v[:, 0] > 0, e, -e)
    delta = n / (2 * eta) * (2 * wrong)[:, None] * v
    second, bias = np.mean(np.sum(delta**2, axis=1)), np.sum(np.mean(delta, axis=0) ** 2)
    assert second == pytest.approx(sphere.inexact_second_moment(1.0, n, eta, e**2))
    assert bias <= sphere.inexact_bias(1.0, n, eta, e**2)
    assert bias > 0.5 * sphere.inexact_bias(1.0, n, eta, e**2)
