"""The plan: exact local steps, cohorts of the asked size, losses at the asked rates."""

import math
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtier.errors import FedtierError
from fedtier.federation import growing_steps, make_plan


def plan_of(seed: int = 0, **options):
    return make_plan(np.random.default_rng(seed), **({"clients": 10, "rounds": 6} | options))


@pytest.mark.parametrize("tau", [1, 3, 5, 20, 50, 101])
def test_local_steps_are_exact_by_integer_arithmetic(tau):
    """ceil(tau sqrt(k)) is the least j with j^2 >= tau^2 k."""
    expected = [math.isqrt(tau * tau * k - 1) + 1 for k in range(1, 20_001)]
    assert growing_steps(float(tau), 20_000).tolist() == expected


def test_local_steps_are_exact_for_halves_too():
    expected = [next(j for j in range(1, 10**6) if 4 * j * j >= 25 * k) for k in range(1, 401)]
    assert growing_steps(2.5, 400).tolist() == expected


def test_every_client_has_its_own_tau():
    table = growing_steps(np.array([0.0, 1.0, 10.0]), 4)
    assert table.tolist() == [[0, 1, 10], [0, 2, 15], [0, 2, 18], [0, 2, 20]]
    plan = plan_of(clients=3, rounds=4, tau=np.array([0.0, 1.0, 10.0]))
    np.testing.assert_array_equal(plan.steps, table)


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 30),
    rounds=st.integers(0, 12),
    participation=st.integers(1, 100).map(lambda percent: percent / 100),
    seat=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_cohort_has_the_asked_size_and_no_client_twice(clients, rounds, participation, seat, seed):
    plan = plan_of(seed, clients=clients, rounds=rounds, participation=participation, seat=seat, tau=2.0)
    size = max(1, int((Decimal(str(participation)) * clients).quantize(Decimal(1), ROUND_HALF_UP))) + seat
    assert plan.ids.shape == plan.steps.shape == plan.arrived.shape == (rounds, size)
    assert (plan.rounds, plan.cohort) == (rounds, size)
    asked = plan.ids[:, :-1] if seat else plan.ids
    assert all(np.all(np.diff(row) > 0) and row.min() >= 0 and row.max() < clients for row in asked)
    if seat:
        assert np.all(plan.ids[:, -1] == clients)


@pytest.mark.parametrize(("clients", "cohort"), [(1, 1), (2, 1), (3, 2), (5, 3), (7, 4), (9, 5), (10, 5)])
def test_half_of_the_clients_is_rounded_up(clients, cohort):
    assert plan_of(clients=clients, rounds=2, participation=0.5).cohort == cohort


def test_a_share_means_the_decimal_number_that_was_written():
    assert 0.145 * 100 < 14.5  # in binary
    assert plan_of(clients=100, rounds=1, participation=0.145).cohort == 15
    assert plan_of(clients=100, rounds=1, participation=0.001).cohort == 1  # at least one client is asked


def test_all_clients_are_asked_equally_often():
    plan = plan_of(clients=20, rounds=4000, participation=0.25)
    counts = np.bincount(plan.ids.ravel(), minlength=20)
    deviation = math.sqrt(4000 * 0.25 * 0.75)
    assert np.abs(counts - 1000).max() < 4.5 * deviation


@pytest.mark.parametrize(("stragglers", "dropouts"), [(0.0, 0.0), (0.3, 0.1), (1.0, 0.9)])
def test_stragglers_and_dropouts_come_at_the_asked_rates(stragglers, dropouts):
    plan = plan_of(clients=50, rounds=400, stragglers=stragglers, dropouts=dropouts, tau=1.0)
    for rate, seen in ((stragglers, np.mean(plan.steps == 0)), (dropouts, np.mean(~plan.arrived))):
        assert seen == pytest.approx(rate, abs=4.5 * math.sqrt(rate * (1 - rate) / 20_000) + 1e-12)


def test_the_server_s_seat_is_never_late_and_never_lost():
    plan = plan_of(clients=4, rounds=50, stragglers=1.0, dropouts=0.9, seat=True, tau=np.array([1.0, 2.0, 3.0, 4.0]))
    assert plan.arrived[:, -1].all() and (plan.steps[:, :-1] == 0).all()
    expected = [math.ceil(sum(math.isqrt(t * t * k - 1) + 1 for t in (1, 2, 3, 4)) / 4) for k in range(1, 51)]
    assert plan.steps[:, -1].tolist() == expected


def test_a_table_of_steps_replaces_tau():
    by_round = plan_of(rounds=3, steps=np.array([4, 0, 9]))
    assert by_round.steps.tolist() == [[4] * 10, [0] * 10, [9] * 10]
    table = np.arange(30).reshape(3, 10)
    plan = plan_of(rounds=3, steps=table, participation=0.4)
    np.testing.assert_array_equal(plan.steps, np.take_along_axis(table, plan.ids, axis=1))


def test_the_same_seed_gives_the_same_plan_and_another_seed_another():
    options = {"participation": 0.5, "stragglers": 0.2, "dropouts": 0.2, "rounds": 20}
    one, again, other = plan_of(1, **options), plan_of(1, **options), plan_of(2, **options)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one.ids, other.ids)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"participation": 0.0}, "participation"),
        ({"participation": 1.1}, "participation"),
        ({"stragglers": -0.1}, "stragglers"),
        ({"dropouts": 1.0}, "dropouts"),
        ({"rounds": -1}, "rounds"),
        ({"clients": 0}, "clients"),
        ({"tau": -1.0}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"tau": float("inf")}, "tau"),
        ({"tau": 1e10}, "tau"),
        ({"tau": np.ones(3)}, "tau"),
        ({"steps": np.ones(5, int)}, "steps"),
        ({"steps": -np.ones(6, int)}, "steps"),
        ({"steps": np.full(6, 1.5)}, "steps"),
        ({"steps": np.full(6, np.nan)}, "steps"),
    ],
)
def test_impossible_plans_are_refused_by_name(options, name):
    with pytest.raises(FedtierError) as caught:
        plan_of(**options)
    assert caught.value.name == name


def test_clients_in_turn_are_each_asked_once_before_anyone_is_asked_again():
    plan = plan_of(clients=4, rounds=15, participation=0.25, order="cycle")
    asked = plan.ids[:, 0]
    cycles = [sorted(asked[k : k + 4].tolist()) for k in range(0, 12, 4)]
    assert cycles == [[0, 1, 2, 3]] * 3 and len(set(asked[12:].tolist())) == 3
    orders = {
        tuple(plan_of(seed, clients=4, rounds=4, participation=0.25, order="cycle").ids[:, 0].tolist()) for seed in range(30)
    }
    assert len(orders) > 10  # drawn anew, of 24


def test_cohorts_in_turn_divide_the_clients_or_are_refused():
    plan = plan_of(clients=6, rounds=4, participation=0.5, order="cycle")
    for k in (0, 2):
        assert sorted(plan.ids[k : k + 2].ravel().tolist()) == list(range(6))
    with pytest.raises(FedtierError, match="participation"):
        plan_of(clients=5, rounds=4, participation=0.4, order="cycle")


def test_cohorts_by_coins_have_free_seats_that_never_count():
    """100 clients by a coin of 0.2 in 400 rounds: sizes as those of a binomial, nobody twice in a round."""
    plan = make_plan(np.random.default_rng(0), clients=100, rounds=400, participation=0.2, tau=1.0, order="poisson")
    sizes = plan.arrived.sum(axis=1)
    assert plan.cohort == sizes.max() and abs(sizes.mean() - 20) < 1 and abs(sizes.std() - 4) < 0.5
    assert np.all(plan.steps[~plan.arrived] == 0) and np.all(plan.steps[plan.arrived] > 0)
    assert np.all(np.diff(plan.ids, axis=1) > 0) and plan.ids.max() < 100
    asked = np.bincount(plan.ids[plan.arrived], minlength=100) / 400
    assert np.abs(asked - 0.2).max() < 0.09, "each with the same chance, whatever its number"


def test_a_longer_plan_by_coins_begins_with_the_shorter_and_wider_ones_say_the_same():
    short, long = (
        make_plan(np.random.default_rng(1), clients=9, rounds=r, participation=0.3, tau=2.0, dropouts=0.3, order="poisson")
        for r in (5, 60)
    )
    wide = short.padded(long.cohort)
    for table, other in zip(wide[:3], long[:3], strict=True):
        np.testing.assert_array_equal(table[:5], other[:5])
    assert short.padded(short.cohort) is short


def test_coins_go_without_a_seat_for_the_server():
    with pytest.raises(FedtierError, match="neither a seat for the server nor a clock"):
        make_plan(np.random.default_rng(0), clients=9, rounds=2, order="poisson", seat=True)
