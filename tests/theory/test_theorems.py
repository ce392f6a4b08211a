"""Theorem 1's bounds by hand arithmetic, Theorem 2's conditions for every schedule we ship."""

from math import inf, sqrt

import numpy as np
import pytest

from fedtier.schedules import power
from fedtier.theory import constants, theorem1, theorem2
from fedtier.theory.numbers import exact


def two_clients():
    def client(width):
        return constants.quadratic_client(
            "everywhere",
            np.ones(3),
            1.0,
            constants.huber_coupling(2.0, width, 1.0),
            variance=np.zeros(3),
            batch=1,
            start=exact(1.0, "by hand"),
        )

    return constants.Constants(3, exact(1.0, "f1"), exact(2.0, "f1"), (client(1.0), client(3.0)))


def test_the_landscape_by_hand():
    # L0_imp = 2 width/2 = 1 and 3: mean 2, mean square 5. n = 3: E|v_1| = 1/2, L = 1 + 2 * 3 * (1/2)/0.5 = 7; V = 3*5/2 + 4/2.
    land = theorem1.landscape(two_clients(), 0.5, 2)
    assert pytest.approx(7.0) == land.L
    assert land.variance == pytest.approx(9.5)
    assert land.step_limit() == pytest.approx(1 / 28)
    # The paper's rounding: eta/(4 (eta L1 + L0 sqrt n)) = 0.5/(4 (0.5 + 2 sqrt 3)).
    assert theorem1.paper_step_limit(1.0, 2.0, 3, 0.5) == pytest.approx(0.5 / (4 * (0.5 + 2 * sqrt(3))))
    # w = mean(2^2 * 0.1, 6^2 * 0.2) = 3.8
    assert theorem1.felt_error(two_clients(), [0.1, 0.2]) == pytest.approx(3.8)
    assert land.bias(3.8) == pytest.approx(3 * 3.8 / 0.25)
    assert land.disturbance(3.8) == pytest.approx(9 * 3.8 / 0.25)


def test_the_bounds_for_two_rounds_by_hand():
    land = theorem1.Landscape(n=2, eta=1.0, L=1.0, variance=3.0)
    gamma, w, gap = np.array([0.2, 0.1]), np.array([0.5, 0.25]), 1.0
    # b = 2w = (1, 0.5), D = 4w = (2, 1), noise = L (V + D) = (5, 4).
    found = theorem1.bounds(land, gamma, w, gap, paper_gap=2.0)
    assert found.weighted == pytest.approx((4 + 2 * (0.2 + 0.05) + 4 * (0.04 * 5 + 0.01 * 4)) / 0.3)
    rest = ((2 * 1 + 4 * 0.2 * 5) + (2 * 0.5 + 4 * 0.1 * 4)) / 2
    highest = 1 + (0.2 + 0.05) / 2 + (0.04 * 5 + 0.01 * 4)
    assert found.uniform == pytest.approx(4 * highest / (0.1 * 2) + rest)
    assert found.paper == pytest.approx(4 * 2 / (0.1 * 2) + rest)


def test_a_step_above_the_limit_has_no_guarantee_and_a_rising_one_none_for_a_uniform_draw():
    land = theorem1.Landscape(n=2, eta=1.0, L=1.0, variance=3.0)
    assert theorem1.bounds(land, [0.26], 0.0, 1.0) == (inf, inf, inf)
    rising = theorem1.bounds(land, [0.1, 0.2], 0.0, 1.0)
    assert rising.uniform == inf and np.isfinite(rising.weighted)


def test_for_a_constant_step_the_three_ways_to_sum_agree_up_to_the_sup_term():
    land = theorem1.Landscape(n=2, eta=1.0, L=1.0, variance=3.0)
    found = theorem1.bounds(land, np.full(100, 0.01), 0.0, 1.0)
    assert found.weighted == pytest.approx(found.paper)
    assert found.uniform > found.weighted


def test_what_the_paper_telescopes_is_refuted_by_numbers_that_obey_the_descent_inequality():
    # D_r = E F(x_r) - F_*: start at 0 and let noise lift it to 1, then descend. The telescoped sum of (D_r - D_{r+1})/gamma_r
    # exceeds D_0/gamma_{R-1} although D stays below what the noise allows; our sup term covers it.
    R = 1000
    gamma = 0.1 / np.sqrt(np.arange(R) + 1.0)
    D = np.concatenate([np.linspace(0, 1, R // 2), np.linspace(1, 0, R - R // 2 + 1)])
    total = np.sum((D[:-1] - D[1:]) / gamma)
    assert total > D[0] / gamma[-1]
    assert total <= D.max() / gamma[-1]


def test_the_rate_of_a_constant_step_by_hand():
    land = theorem1.Landscape(n=4, eta=2.0, L=1.0, variance=4.0)
    rate = theorem1.constant_rate(land, gap=1.0, W=0.5)
    # c = sqrt(1/(1*4)) = 1/2; theta = (4/0.5, 4*0.5*4, 4*4*0.5/4, 8*0.5*4*(4*0.5/4)); least = ceil((4*0.5)^2) = 4.
    assert rate == pytest.approx((0.5, 8.0, 8.0, 2.0, 8.0, 4))
    assert rate.bound(4) == pytest.approx(18 / 2 + 8 / 4)
    assert rate.bound(3) == inf
    R = rate.rounds_for(0.5)
    assert rate.bound(int(R)) <= 0.5 < rate.bound(int(R) - 1)


def test_the_rate_is_above_the_computed_sum():
    land = theorem1.Landscape(n=4, eta=2.0, L=1.0, variance=4.0)
    rate = theorem1.constant_rate(land, gap=1.0, W=0.5)
    for R in (4, 50, 3000):
        w = 0.5 / np.sqrt(np.arange(R) + 1.0)
        computed = theorem1.bounds(land, np.full(R, rate.c / sqrt(R)), w, 1.0).weighted
        assert computed <= rate.bound(R) * (1 + 1e-9)
        assert computed >= 0.7 * rate.bound(R)


def test_the_local_iterations_by_hand():
    # tau = 1.5: ceil(1.5), ceil(2.12), ceil(2.598) = 2, 3, 3; both solves.
    assert theorem1.local_iterations(1.5, 3) == 16
    near, far = theorem1.local_iterations(20.0, 10**6), theorem1.local_iterations(20.0, 10**6 + 1)
    assert near <= far <= 1.002 * near


@pytest.mark.parametrize(
    ("schedule", "growth", "expected"),
    [
        (0.01, 0.5, (True, False, False)),  # the default inverse_sqrt: Theorem 1, not Theorem 2
        ("inverse_sqrt(0.01)", 1.0, (True, False, True)),
        ("constant(0.1)", 0.5, (True, False, False)),
        ("inverse(0.1)", 0.5, (True, True, True)),
        ("inverse(0.1, 5)", 0.0, (True, True, False)),  # local errors that never vanish
        ("power(0.1, 0.75)", 0.5, (True, True, True)),
        ("power(0.1, 0.5)", 1.0, (True, False, True)),
        ("power(0.1, 0.6)", 0.4, (True, True, False)),  # 0.6 + 0.4 = 1 diverges like log
        ("power(0.1, 1)", 0.0, (True, True, False)),
        ("power(0.1, 2)", 0.5, (False, True, True)),  # stops before it arrives
    ],
)
def test_the_conditions_of_theorem_2_are_decided_for_the_schedules_we_ship(schedule, growth, expected):
    verdict = theorem2.decide(theorem2.server_shape(schedule), growth)
    assert tuple(part.holds for part in verdict) == expected
    assert verdict.holds == all(expected)


def test_slow_local_steps_spoil_theorem_2():
    shape = theorem2.server_shape("power(1, 0.75)")
    assert theorem2.decide(shape, 0.5, 1.0).holds
    assert theorem2.decide(shape, 0.5, 0.2).errors_summable.holds is False  # 0.75 + 0.5 * 0.2 < 1


def test_an_unknown_function_is_explained_but_not_decided():
    verdict = theorem2.decide(theorem2.server_shape(power(0.3, 0.75)), 0.5)
    assert verdict.holds is None
    assert "likely" in verdict.square_summable.why and "r^-1.5" in verdict.square_summable.why
    assert theorem2.fitted(lambda r: 0.0 * r).exponent == inf


def test_shapes_are_read_with_their_numbers():
    assert theorem2.client_shape("inverse(2, 7)")[2:] == (True, 2.0, 7.0)
    assert theorem2.client_shape(0.1)[:4] == ("inverse(0.1)", 1.0, True, 0.1)


@pytest.mark.parametrize(("growth", "k"), [(0.5, 1.0), (1.0, 0.2), (0.3, 1.0)])
def test_the_exponent_by_construction_satisfies_all_three_conditions(growth, k):
    a = theorem2.guaranteed_exponent(growth, k)
    assert a is not None
    assert theorem2.decide(theorem2.server_shape(f"power(0.1, {a})"), growth, k).holds


def test_without_growth_no_exponent_satisfies_theorem_2():
    assert theorem2.guaranteed_exponent(0.0) is None
