"""Algorithm 2: the recursion is exact where it can be, the closed form is above it, wrong step sizes are refused."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.schedules import constant, inverse
from fedtier.theory import local
from fedtier.theory.local import LocalProblem


def test_the_recursion_is_exact_for_a_one_dimensional_quadratic():
    # h = y^2 (mu = L = 2), noise of variance 3: e <- (1 - 2a)^2 e + 3 a^2; a = 1/2, 1/4 from e = 5: 3/4, then 3/16 + 3/16.
    bounds = local.recursion(inverse(1.0, 2.0), LocalProblem(2.0, 2.0, 3.0, 5.0), 3)
    assert bounds[1] == pytest.approx(0.75)  # a_0 = 1/2: (1 - 1)^2 * 5 + 3/4
    assert bounds[2] == pytest.approx((1 - 2 / 3) ** 2 * 0.75 + 3 / 9)  # a_1 = 1/3
    assert bounds[3] == pytest.approx((1 - 2 / 4) ** 2 * bounds[2] + 3 / 16)  # a_2 = 1/4


def test_the_closed_form_is_above_the_recursion_and_within_a_factor_for_large_H():
    client = LocalProblem(0.5, 4.0, 2.0, 9.0)
    c, offset = local.guaranteed(client.mu, client.L)
    assert (c, offset) == (2.0, 4.5)
    bound = local.decay_constant(c, offset, client)
    # slack = 2 * 2 * 0.5 - 1 - 1/4.5 = 7/9; B = max(4.5 * 9, 4 * 2/(7/9)) = 40.5
    assert bound.constant == pytest.approx(40.5)
    steps = 5000
    stepwise = local.recursion(inverse(c, offset), client, steps)
    closed = bound.constant / (np.arange(steps + 1) + offset)
    assert np.all(stepwise <= closed * (1 + 1e-6))


def test_the_noise_term_of_the_closed_form_is_sharp():
    # h = mu/2 y^2 in one dimension with c = 1/mu: e_H = sigma^2/mu^2/(H + Gamma) to first order.
    client = LocalProblem(1.0, 1.0, 4.0, 0.0)
    bound = local.decay_constant(1.0, 2.0, client)
    assert bound.constant == pytest.approx(4.0 / (2 - 1 - 0.5))
    far = local.decay_constant(1.0, 1000.0, client)
    measured = local.recursion(inverse(1.0, 1000.0), client, 100_000)[-1] * 101_000
    assert measured == pytest.approx(far.constant, rel=0.02)


def test_the_steps_for_an_error_are_the_least_that_reach_it():
    bound = local.LocalBound(40.0, 4.0)
    assert bound.steps_for(0.1) == 396  # 40/0.1 - 4
    assert bound.error(396) == pytest.approx(0.1)
    assert bound.error(395) > 0.1
    assert bound.steps_for(100.0) == 0
    schedule, client = inverse(2.0, 4.5), LocalProblem(0.5, 4.0, 2.0, 9.0)
    H = local.steps_for(schedule, client, 0.5, 2000)
    assert local.recursion(schedule, client, int(H))[-1] <= 0.5 < local.recursion(schedule, client, int(H) - 1)[-1]
    assert local.steps_for(constant(0.5), LocalProblem(1.0, 1.0, 1.0, 1.0), 1e-3, 1000) == float("inf")


def test_a_step_that_shrinks_too_soon_decays_with_the_power_2_c_mu():
    # c mu = 0.1: without noise e_H ~ H^-0.2, the paper's 0.1/(t + 1) at mu = 1.
    e = local.recursion(inverse(0.1), LocalProblem(1.0, 1.0, 0.0, 1.0), 100_000)
    slope = np.log(e[100_000] / e[1000]) / np.log(100)
    assert slope == pytest.approx(-local.decay_exponent(0.1, 1.0), abs=0.005)
    assert local.decay_exponent(2.0, 1.0) == 1.0


@pytest.mark.parametrize("a", [0.5, 0.75])
def test_slower_shrinking_steps_decay_with_their_own_power(a):
    # The noise balances the contraction at e = a_t sigma^2/(2 mu): here 0.5/t^a * 1/2.
    e = local.recursion(lambda t: 0.5 / (t + 1.0) ** a, LocalProblem(1.0, 1.0, 1.0, 1.0), 100_000)
    slope = np.log(e[100_000] / e[10_000]) / np.log(10)
    assert slope == pytest.approx(-local.decay_exponent(0.5, 1.0, a), abs=0.02)
    assert e[-1] == pytest.approx(0.5 * 100_000**-a / 2, rel=0.1)


def test_constant_and_summable_steps_do_not_arrive():
    client = LocalProblem(1.0, 1.0, 1.0, 1.0)
    assert local.recursion(constant(0.1), client, 2000)[-1] == pytest.approx(
        0.1 / (2 - 0.1), rel=1e-4
    )  # a sigma^2/(mu (2 - a mu))
    assert local.recursion(lambda t: 0.5 / (t + 1.0) ** 2, client, 2000)[-1] > 0.1
    assert local.decay_exponent(0.1, 1.0, 0.0) == local.decay_exponent(0.5, 1.0, 2.0) == 0.0


def test_step_sizes_outside_the_guarantee_are_refused_with_the_reason():
    client = LocalProblem(1.0, 9.0, 1.0, 1.0)
    with pytest.raises(FedtierError, match=r"offset = 1.0: must be at least c \(mu \+ L\)/2 = 5"):
        local.decay_constant(1.0, 1.0, client)
    with pytest.raises(FedtierError, match="2 c mu - 1"):
        local.decay_constant(0.4, 5.0, client)
    with pytest.raises(FedtierError, match="proximity > 0"):
        local.recursion(constant(0.1), LocalProblem(0.0, 1.0, 1.0, 1.0), 3)
