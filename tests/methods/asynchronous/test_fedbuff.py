"""FedBuff: against an event queue in NumPy, and what it reduces to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled, messages
from fedtier.errors import FedtierError
from fedtier.federation import Clock, make_plan
from fedtier.methods import fedbuff, make

from .arena import KEYS, model_after, plan_of, points, problem, queue, same
from .reference import CLIENTS, START


def buffered(rate):
    def update(x, came):
        total = sum((reply.y - reply.x) / np.sqrt(1.0 + reply.age) for reply in came)
        return x + rate * total / len(came) if came else x

    return update


@pytest.mark.known_answer("fedbuff")
@pytest.mark.parametrize(("buffer", "working"), [(3, 6), (2, 4)])
def test_fedbuff_is_an_event_queue_in_which_every_job_carries_the_model_it_began_with(buffer, working):
    plan = plan_of(buffer, working / CLIENTS)
    wanted, times, ages, lost = queue(buffer, buffered(0.7), working)
    same(model_after("fedbuff", {"buffer": buffer, "server_rate": 0.7}, plan), wanted)
    np.testing.assert_array_equal(plan.seconds, times)
    assert sorted(plan.staleness.ravel()) == sorted(ages) and ages.max() >= 3 and (~plan.arrived).sum() == lost > 0


@pytest.mark.known_answer("fedbuff")
@pytest.mark.slow
@pytest.mark.checked
def test_without_staleness_fedbuff_is_fedavg_with_uniform_weights():
    """Equally fast clients with equal steps, a buffer as large as their number: nothing is stale, whatever is lost."""
    clock = Clock(np.ones(CLIENTS), 0.5, 0.25)
    with_buffer = plan_of(4, 4 / CLIENTS, 12, clock)  # unequal H: fast and slow jobs
    assert with_buffer.staleness.max() > 0
    equal = with_buffer._replace(staleness=np.zeros_like(with_buffer.staleness))
    found = model_after("fedbuff", {"buffer": 4}, equal)
    same(found, model_after("fedavg", {"weighting": "uniform"}, equal._replace(staleness=None)))
    by_rows = model_after("fedbuff", {"buffer": 4, "weighting": "data"}, equal)
    same(by_rows, model_after("fedavg", {"weighting": "data"}, equal._replace(staleness=None)))
    assert np.abs(found - by_rows).max() > 1e-3


@pytest.mark.known_answer("fedbuff")
@pytest.mark.slow
def test_a_buffer_of_one_is_fedasync_in_the_delta_form():
    plan = plan_of(1)
    found = model_after("fedbuff", {"buffer": 1, "server_rate": 0.6}, plan)
    same(found, model_after("fedasync", {"blending": 0.6, "blended": "delta", "anchor": 0.0}, plan))
    assert plan.history > 4


@pytest.mark.slow
def test_the_engines_agree_on_an_asynchronous_plan():
    plan = plan_of(3, rounds=8)
    found = {engine: model_after("fedbuff", {"buffer": 3}, plan, engine) for engine in (compiled, messages)}
    same(found[compiled], found[messages])


@pytest.mark.slow
def test_a_run_in_pieces_is_the_run_bit_for_bit():
    plan, federation = plan_of(2, rounds=20), points()[0]
    engine = compiled(make("fedbuff", problem(), KEYS | {"buffer": 2}), capacity=20, history=plan.history)
    first = engine.init(jnp.asarray(START, jnp.float32), federation)
    whole, _ = engine.advance(first, federation, plan, keys.root(0), 0, 20)
    half, _ = engine.advance(first, federation, plan, keys.root(0), 0, 7)
    pieces, _ = engine.advance(half, federation, plan, keys.root(0), 7, 13)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(pieces), strict=True):
        np.testing.assert_array_equal(a, b)
    assert plan.staleness[7:10].max() >= 3  # somebody answers a broadcast of before the cut


@pytest.mark.slow
def test_the_ring_is_as_long_as_the_largest_staleness_needs_and_a_longer_one_changes_nothing():
    plan, federation = plan_of(2, rounds=12), points()[0]
    method = make("fedbuff", problem(), KEYS | {"buffer": 2})

    def after(history):
        engine = compiled(method, capacity=12, history=history)
        state = engine.init(jnp.asarray(START, jnp.float32), federation)
        assert jax.tree.leaves(state.ring)[0].shape == (history, 3)
        return np.asarray(engine.advance(state, federation, plan, keys.root(0), 0, 12)[0].server.x)

    np.testing.assert_array_equal(after(plan.history), after(plan.history + 3))
    with pytest.raises(FedtierError, match="remembers"):
        after(plan.history - 1)


def test_a_method_without_a_buffer_has_no_ring_and_refuses_an_asynchronous_plan():
    engine = compiled(make("fedavg", problem(), KEYS), capacity=5, history=4)
    state = engine.init(jnp.asarray(START, jnp.float32), points()[0])
    assert state.ring == ()
    with pytest.raises(FedtierError, match="older broadcasts"):
        engine.advance(state, points()[0], plan_of(2, rounds=5), keys.root(0), 0, 5)


def test_a_plan_that_reaches_before_the_first_round_is_refused():
    engine = compiled(fedbuff(problem(), buffer=2), capacity=5, history=9)
    plan, state = plan_of(2, rounds=5), engine.init(jnp.asarray(START, jnp.float32), points()[0])
    for wrong in (plan.staleness + 1, plan.staleness - 5):
        with pytest.raises(FedtierError, match="before round 0"):
            engine.advance(state, points()[0], plan._replace(staleness=wrong), keys.root(0), 0, 5)


@pytest.mark.slow
def test_a_method_with_a_buffer_and_messages_of_one_clients_own_is_refused():
    own = fedbuff(problem(), buffer=2)._replace(address=lambda server, turn: turn.key)
    plan = make_plan(np.random.default_rng(0), clients=CLIENTS, rounds=2, participation=0.5, tau=1.0)
    with jax.enable_x64(True):
        for engine in (compiled(own, capacity=2), messages(own)):
            state = engine.init(jnp.asarray(START), points()[0])
            with pytest.raises(FedtierError, match="address"):
                engine.advance(state, points()[0], plan, keys.root(0), 0, 2)


@pytest.mark.parametrize("options", [{"buffer": 0}, {"buffer": 2.5}, {"server_rate": 0.0}, {"weighting": "rows"}])
def test_bad_options_are_refused(options):
    with pytest.raises(FedtierError, match=next(iter(options))):
        make("fedbuff", problem(), options)
