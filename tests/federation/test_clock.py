"""The virtual clock, and the plan of a server that does not wait."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtier.errors import FedtierError
from fedtier.federation import Clock, asynchronous_plan, make_clock, make_plan


def plan_of(clock, seed=0, **options):
    return asynchronous_plan(np.random.default_rng(seed), clock, **({"clients": len(clock.slowness)} | options))


def test_without_a_clock_a_plan_has_neither_times_nor_ages_and_with_one_the_same_draws():
    def plan(clock):
        return make_plan(np.random.default_rng(7), clients=9, rounds=6, participation=0.4, tau=2.0, dropouts=0.3, clock=clock)

    plain, timed = plan(None), plan(make_clock(np.random.default_rng(1), clients=9, speed_spread=10.0))
    assert plain.staleness is plain.seconds is timed.staleness is None and plain.history == 1
    for a, b in zip(plain[:3], timed[:3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_synchronous_round_lasts_as_long_as_the_slowest_of_its_cohort():
    clock = Clock(np.asarray([1.0, 4.0, 2.0]), 0.5, 3.0)
    steps = np.asarray([[1, 1, 1], [9, 2, 1], [10, 2, 1]])
    plan = make_plan(np.random.default_rng(0), clients=3, rounds=3, steps=steps, stragglers=0.9, seat=True, clock=clock)
    # 3 + 0.5 max(1, 4, 2) = 5; 3 + 0.5 max(9, 8, 2) = 7.5; 3 + 0.5 max(10, 8, 2) = 8
    np.testing.assert_allclose(plan.seconds, [5.0, 12.5, 20.5])
    assert (plan.steps[:, :3] == 0).any()  # a straggler is waited for, and the server's own seat is not


def test_speeds_are_log_uniform_over_the_asked_spread():
    slowness = make_clock(np.random.default_rng(0), clients=20_000, speed_spread=10.0).slowness
    logs = np.log10(slowness)
    assert logs.min() >= 0 and logs.max() <= 1
    np.testing.assert_allclose(np.quantile(logs, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.02)
    assert (make_clock(np.random.default_rng(0), clients=5, speed_spread=1.0).slowness == 1).all()


def test_two_clients_played_by_hand():
    """Client 0 needs 1 s, client 1 needs 3 s, one reply a step: 0 at 1 s and 2 s; at 3 s first the job that began first."""
    clock = Clock(np.asarray([1.0, 3.0]), 1.0, 0.0)
    plan = plan_of(clock, seed=1, rounds=5, buffer=1, steps=np.ones(5))
    assert plan.ids[:, 0].tolist() == [0, 0, 1, 0, 0]
    assert plan.staleness[:, 0].tolist() == [0, 0, 2, 1, 0]
    assert plan.seconds.tolist() == [1.0, 2.0, 3.0, 3.0, 4.0]
    assert plan.history == 3


def test_with_equal_speeds_and_a_buffer_for_all_at_work_nothing_is_stale():
    clock = Clock(np.ones(8), 0.5, 2.0)
    plan = plan_of(clock, rounds=6, buffer=4, participation=0.5, tau=4.0, dropouts=0.3)
    assert not plan.staleness.any()
    steps = np.ceil(4.0 * np.sqrt(np.arange(6) + 1.0))
    np.testing.assert_allclose(plan.seconds, np.cumsum(2.0 + 0.5 * steps))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.floats(0.05, 1.0), st.floats(1.0, 30.0), st.booleans()
)  # fmt: skip
def test_every_client_has_one_job_at_a_time_and_begins_with_a_broadcast_that_was_there(
    seed, clients, buffer, share, spread, seat
):
    buffer = min(buffer, clients)
    clock = make_clock(np.random.default_rng(seed), clients=clients, speed_spread=spread, latency=0.1)
    plan = plan_of(clock, seed, rounds=25, buffer=buffer, participation=share, tau=1.5, stragglers=0.2, dropouts=0.2, seat=seat)
    began = np.arange(25)[:, None] - plan.staleness
    assert plan.ids.shape == (25, buffer + seat) and (np.diff(plan.ids, axis=1) > 0).all()
    assert (plan.staleness >= 0).all() and (began >= 0).all() and (np.diff(plan.seconds) >= 0).all()
    last = {}
    for r, (ids, starts) in enumerate(zip(plan.ids, began, strict=True)):
        for i, start in zip(ids.tolist(), starts.tolist(), strict=True):
            assert start > last.get(i, -1)  # it began after its last reply had counted
            last[i] = r
    if seat:
        assert (plan.ids[:, -1] == clients).all() and not plan.staleness[:, -1].any() and plan.arrived[:, -1].all()


def test_an_asynchronous_plan_of_more_rounds_begins_with_the_shorter_one():
    clock = make_clock(np.random.default_rng(2), clients=7, speed_spread=10.0)
    options = {"buffer": 2, "participation": 0.6, "tau": 2.0, "stragglers": 0.3, "dropouts": 0.3, "seat": True}
    short, long = (plan_of(clock, rounds=rounds, **options) for rounds in (9, 30))
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a, b[:9])
    assert plan_of(clock, rounds=0, **options).ids.shape == (0, 3)


def test_fast_clients_are_in_more_buffers():
    clock = Clock(np.asarray([1.0, 1.0, 10.0, 10.0]), 1.0, 0.0)
    counts = np.bincount(plan_of(clock, rounds=400, buffer=2, tau=1.0).ids.ravel())
    np.testing.assert_allclose(counts[:2].sum() / counts[2:].sum(), 10.0, rtol=0.25)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"buffer": 4}, "buffer"), ({"buffer": 0}, "buffer"), ({"participation": 0.0}, "participation"),
        ({"dropouts": 1.0}, "dropouts"), ({"stragglers": -0.1}, "stragglers"), ({"rounds": -1}, "rounds"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_by_name(options, name):
    clock = Clock(np.ones(3), 1.0, 0.0)
    with pytest.raises(FedtierError, match=name):
        plan_of(clock, **({"rounds": 3, "buffer": 2} | options))


@pytest.mark.parametrize("options", [{"speed_spread": 0.5}, {"step_seconds": 0.0}, {"latency": -1.0}])
def test_a_bad_clock_is_refused_by_name(options):
    with pytest.raises(FedtierError, match=next(iter(options))):
        make_clock(np.random.default_rng(0), clients=3, **options)
