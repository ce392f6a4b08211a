"""One bad reply is a lost reply: in every engine, for every method, counted for its client; the others go on."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled, messages
from fedtier.engines.engine import finite_seeds, keep_seeds
from fedtier.engines.replies import LEAST, WINDOW, Replies, judged, length
from fedtier.errors import FedtierError
from fedtier.federation import make_plan
from fedtier.methods import METHODS, fedavg, scaffold
from fedtier.problem import cross_entropy, softmax, supervised
from fedtier.protocol.validation import Reply, too_large

from ..methods.federations import digits
from ..small_runs import one_of_a_family

MODEL = softmax(64, 10)
PROBLEM = supervised(cross_entropy(MODEL), penalty=1.0, proximity=0.3)._replace(model=MODEL, outputs=10)
BAD, ROUNDS = 3, 4


def with_rows(federation, client, factor):
    """The federation in which one client's rows are so many times too large."""
    start, size = int(federation.train.start[client]), int(federation.train.size[client])
    rows = np.asarray(federation.index)[start : start + size]
    inputs = np.array(federation.arrays.inputs)
    inputs[rows] = np.where(inputs[rows] == 0, 1.0, np.sign(inputs[rows])) * factor
    return federation._replace(arrays=federation.arrays._replace(inputs=jnp.asarray(inputs)))


def everyone(rounds=ROUNDS, clients=10, tau=2.0):
    return make_plan(np.random.default_rng(0), clients=clients, rounds=rounds, participation=1.0, tau=tau)


@functools.cache
def engine_of(make, name):
    """One engine for all tests of a method: each compiles its rounds."""
    method = METHODS[name].factory(PROBLEM)
    return compiled(method, capacity=ROUNDS) if make is compiled else messages(method)


def without(plan, client):
    return plan._replace(arrived=plan.arrived & (plan.ids != client))


def play(engine, federation, plan, seed=0):
    state = engine.init(MODEL.init(None), federation)
    return engine.advance(state, federation, plan, keys.root(seed), 0, plan.rounds)[0]


def close(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * max(float(np.abs(b).max()), 1e-30))


# Two need a model with features and mocha a model at all (the battery has one); fedrep sends nothing of a linear model, which
# is all head, and its few steps leave the client's own head large but finite.
APART = ("moon", "knn_per", "mocha", "fedrep")


@pytest.mark.parametrize("name", one_of_a_family([name for name in METHODS if name not in APART]))
def test_a_client_whose_rows_are_1e30_is_as_if_its_replies_had_been_lost(name):
    wild, plan = with_rows(digits(), BAD, 1e30), everyone()
    fast, slow = (play(engine_of(make, name), wild, plan) for make in (compiled, messages))
    for make, found in ((compiled, fast), (messages, slow)):  # that the two agree is a claim of test_engines.py
        wanted = play(engine_of(make, name), digits(), without(plan, BAD))
        close((found.server, found.clients), (wanted.server, wanted.clients))
    jax.tree.map(np.testing.assert_array_equal, slow.replies[:2], fast.replies[:2])
    counts = np.zeros(10, int)
    counts[BAD] = 0 if name == "server_only" else ROUNDS  # which computes nothing at a client
    np.testing.assert_array_equal(fast.replies.not_finite + fast.replies.too_large, counts)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fast))
    lines = [] if name == "server_only" else [f"client {BAD}: {ROUNDS} replies lost ({ROUNDS} not finite)"]
    assert fast.replies.words() == lines


@pytest.mark.slow
def test_a_single_step_from_rows_of_1e30_is_finite_but_its_length_is_not():
    wild, plan = with_rows(digits(), BAD, 1e30), everyone(1, tau=1.0)
    assert (plan.steps == 1).all()
    state = play(engine_of(compiled, "fedavg"), wild, plan)
    assert int(state.replies.not_finite[BAD]) == 1 and float(np.abs(state.server.x.weight).max()) < 1e3


@pytest.mark.slow
@pytest.mark.parametrize("make", [compiled, messages])
def test_a_reply_that_explodes_is_lost_and_the_check_can_be_switched_off(make):
    wild, plan = with_rows(digits(), BAD, 1e6), everyone()
    state = play(engine_of(make, "fedavg"), wild, plan)
    assert int(state.replies.too_large[BAD]) == ROUNDS and int(state.replies.too_large.sum()) == ROUNDS
    assert int(state.replies.not_finite.sum()) == 0
    wanted = play(engine_of(make, "fedavg"), digits(), without(plan, BAD))
    close(state.server, wanted.server)
    off = play(make(fedavg(PROBLEM), magnitude=float("inf")), wild, plan)
    assert int(off.replies.too_large.sum()) == 0 and float(np.abs(off.server.x.weight).max()) > 1e3
    assert state.replies.words() == [f"client {BAD}: {ROUNDS} replies lost ({ROUNDS} too large)"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [compiled, messages])
def test_a_client_that_recovers_goes_on_from_the_state_before_its_lost_replies(make):
    """SCAFFOLD's c_i: lost in rounds 0 and 1, it is that of a client which was first heard in round 2."""
    method, plan = scaffold(PROBLEM), everyone()

    def local(client, shared, own, view, spec, turn):
        client, up = method.local(client, shared, own, view, spec, turn)
        broken = (turn.client == BAD) & (turn.round < 2)
        return jax.tree.map(lambda a: jnp.where(broken, jnp.nan, a), (client, up))

    state = play(make(method._replace(local=local)), digits(), plan)
    early = plan._replace(arrived=(plan.ids != BAD) | (np.arange(ROUNDS)[:, None] >= 2))
    wanted = play(engine_of(make, "scaffold"), digits(), early)
    close((state.server, state.clients), (wanted.server, wanted.clients))
    assert int(state.replies.not_finite[BAD]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("make", [compiled, messages])
def test_a_state_that_is_not_finite_loses_the_reply_though_the_reply_is(make):
    method = scaffold(PROBLEM)

    def local(client, shared, own, view, spec, turn):
        after, up = method.local(client, shared, own, view, spec, turn)
        return jax.tree.map(lambda a: jnp.where(turn.client == BAD, jnp.inf, a), after), up

    plan = everyone(2)
    state = play(make(method._replace(local=local)), digits(), plan)
    close((state.server, state.clients), play(engine_of(make, "scaffold"), digits(), without(plan, BAD))[:2])
    assert int(state.replies.not_finite[BAD]) == 2


@pytest.mark.slow
def test_a_reply_that_the_plan_loses_is_not_counted_again_and_a_round_of_bad_replies_alone_passes():
    wild, plan = with_rows(digits(), BAD, 1e30), everyone(2)
    for make in (compiled, messages):
        assert int(play(engine_of(make, "fedavg"), wild, without(plan, BAD)).replies.not_finite[BAD]) == 0
        alone = jax.tree.map(lambda table: table[:, BAD : BAD + 1], plan)
        state = play(engine_of(make, "fedavg"), wild, alone)
        close(state.server.x, MODEL.init(None))
        assert int(state.replies.not_finite[BAD]) == 2


def test_other_faults_still_stop_the_messages_engine():
    def local(client, shared, own, view, spec, turn):
        raise RuntimeError("a bug in the method")

    state = engine_of(messages, "fedavg").init(MODEL.init(None), digits())
    broken = messages(fedavg(PROBLEM)._replace(local=local))
    with pytest.raises(RuntimeError, match="a bug in the method"):
        broken.advance(state, digits(), everyone(1), keys.root(0), 0, 1)


@pytest.mark.parametrize("make", [compiled, messages])
def test_an_impossible_magnitude_is_refused(make):
    with pytest.raises(FedtierError, match="magnitude"):
        make(fedavg(PROBLEM), magnitude=1.0)


# -- the rule itself


def record(lengths):
    recent = np.zeros(WINDOW, np.float32)
    recent[WINDOW - len(lengths) :] = lengths
    return Replies.none(4)._replace(recent=jnp.asarray(recent))


def verdict(lengths, recent, came=None, magnitude=10.0):
    came = np.ones(len(lengths), bool) if came is None else np.asarray(came)
    ids = jnp.arange(len(lengths), dtype=jnp.int32)
    counted, after = judged(record(recent), jnp.asarray(lengths, jnp.float32), ids, jnp.asarray(came), magnitude)
    return np.asarray(counted).tolist(), after


@pytest.mark.slow
def test_the_limit_is_the_wires_limit_wherever_both_judge():
    """Against `too_large` of the wire, an independent implementation by NumPy's percentile."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        recent = np.exp(rng.normal(size=rng.integers(LEAST, WINDOW + 1)) * 2)
        lengths = np.exp(rng.normal(size=4) * 3)
        replies = {i: Reply((), 0, 0, float(np.float32(n))) for i, n in enumerate(lengths)}
        theirs = too_large(replies, recent.astype(np.float32).astype(float), 10.0)
        ours, _ = verdict(lengths, recent)
        assert ours == [i not in theirs for i in range(4)]


def test_fewer_than_the_least_lengths_judge_nobody_and_this_rounds_own_help_out():
    assert verdict([1e6], [1.0] * (LEAST - 2))[0] == [True]
    assert verdict([1e6], [1.0] * (LEAST - 1))[0] == [False]  # with its own length there are enough
    assert verdict([1.0, 1.0, 1e6, 1.0], [1.0] * (LEAST - 4))[0] == [True, True, False, True]
    assert verdict([1.0, 1.0, 1e6, 1.0], [1.0] * (LEAST - 5))[0] == [True] * 4


def test_silence_and_replies_that_did_not_come_are_neither_judged_nor_known():
    counted, after = verdict([0.0, 5.0, np.inf, 2.0], [1.0] * LEAST, came=[True, False, True, True])
    assert counted == [True, False, False, True]
    np.testing.assert_array_equal(after.recent[-4:], [0.0, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(after.not_finite, [0, 0, 1, 0])


def test_a_size_that_stays_becomes_the_usual_one():
    replies, counted = record([1.0] * WINDOW), []
    for _ in range(WINDOW):
        one, replies = judged(replies, jnp.asarray([100.0]), jnp.asarray([0]), jnp.asarray([True]), 10.0)
        counted.append(bool(one[0]))
    assert not any(counted[: WINDOW // 2]) and all(counted[WINDOW // 2 + 1 :])


def test_the_length_of_a_reply_is_its_euclidean_norm_and_infinite_where_anything_is_not_finite():
    up = (jnp.asarray([3.0, 0.0]), {"a": jnp.asarray([[4.0]])}, jnp.asarray([7], jnp.int32))
    assert float(length((), up)) == 5.0
    assert float(length((), ())) == 0.0
    assert float(length((), jnp.asarray([200.0, 0.0], jnp.float16))) == 200.0  # whose square overflows in float16
    for odd in (jnp.nan, jnp.inf, 1e30):
        assert np.isinf(length((), jnp.asarray([1.0, odd])))
    assert np.isinf(length((jnp.asarray(jnp.nan),), up)) and np.isinf(length((jnp.asarray(-jnp.inf),), ()))


# -- seeds


@pytest.mark.slow
def test_one_seed_that_diverges_is_known_and_the_others_are_those_of_a_run_without_it():
    federations = [digits(seed=s) for s in range(3)]
    together = jax.tree.map(lambda *a: jnp.stack(a), *(f._replace(arrays=()) for f in federations))
    together = together._replace(arrays=federations[0].arrays)
    plan = jax.tree.map(lambda table: np.stack([table] * 3), everyone(2))
    x = jax.tree.map(lambda a: jnp.stack([a, a + jnp.nan, a]), MODEL.init(None))
    key = jnp.stack([keys.root(s) for s in range(3)])
    engine = compiled(fedavg(PROBLEM), capacity=2, seeds=True)
    first = engine.init(x, together)
    state, _ = engine.advance(first, together, plan, key, 0, 2)
    np.testing.assert_array_equal(finite_seeds(state), [True, False, True])
    for s in (0, 2):
        alone = play(engine_of(compiled, "fedavg"), federations[s], everyone(2), seed=s)
        close(jax.tree.map(lambda a, s=s: a[s], state), alone)
    kept = keep_seeds(jnp.asarray([True, False, True]), state, first)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1], b[1]), kept, first)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b[0]), kept, state)


def test_a_method_without_a_servers_state_is_finite_in_every_seed():
    method, federation = METHODS["local_only"].factory(PROBLEM), digits()
    together = jax.tree.map(lambda a: jnp.stack([a, a]), federation._replace(arrays=()))._replace(arrays=federation.arrays)
    x = jax.tree.map(lambda a: jnp.stack([a, a]), MODEL.init(None))
    np.testing.assert_array_equal(finite_seeds(compiled(method, seeds=True).init(x, together)), [True, True])
