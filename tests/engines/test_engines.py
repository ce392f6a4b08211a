"""The engines agree, recompile nothing, and hold memory flat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled, messages
from fedtier.engines.battery import check_method, check_problem, method_claims
from fedtier.errors import FedtierError
from fedtier.federation import Plan, with_seat
from fedtier.methods import METHODS, fedavg, scaffold, zo_hfl
from fedtier.methods.averaging.fedavg import Up
from fedtier.problem import Rows, ball, cross_entropy, softmax, supervised

from ..methods.federations import bumpy_plan, digits
from ..small_runs import one_of_a_family

MODEL = softmax(64, 10, bias=False)
PROBLEM = supervised(cross_entropy(MODEL), penalty=1.0, proximity=0.3, Y=ball())


def play(engine, federation, plan, rounds, seed=0):
    state = engine.init(MODEL.init(None), federation)
    return engine.advance(state, federation, plan, keys.root(seed), 0, rounds)


def distance(found, wanted):
    """Largest relative difference over the leaves."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    wide = ((np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs)  # a mask has no difference of its own
    return max(float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)) for a, b in wide)


# Some are held to this by the battery alone: they need a model, or its features, as it has; decomfl divides differences of the
# loss by 0.02, and their rounding in float32 is then more than this test allows.
APART = ("moon", "knn_per", "mocha", "codistil", "fedmd", "feddf", "decomfl")


@pytest.mark.parametrize("name", ["zo_hfl", *one_of_a_family([name for name in METHODS if name not in (*APART, "zo_hfl")])])
def test_compiled_and_messages_give_the_same_models(name):
    federation, plan = digits(radius=0.3), bumpy_plan(4)
    method = METHODS[name].factory(PROBLEM)
    fast, fast_info = play(compiled(method, capacity=4, layout="map"), federation, plan, 4)
    slow, slow_info = play(messages(method), federation, plan, 4)
    assert distance(fast, slow) <= 1e-6
    assert jax.tree.structure(fast_info) == jax.tree.structure(slow_info)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["vmap", 2])
def test_however_the_cohort_is_laid_out_the_models_are_the_same(layout):
    federation, plan = digits(radius=0.3), bumpy_plan(4)
    method = fedavg(PROBLEM)
    one, _ = play(compiled(method, capacity=4, layout="map"), federation, plan, 4)
    other, _ = play(compiled(method, capacity=4, layout=layout), federation, plan, 4)
    assert distance(one, other) <= 1e-6


@pytest.mark.slow
def test_several_seeds_at_once_equal_each_seed_alone():
    federations, plans = [digits(seed=s) for s in range(3)], [bumpy_plan(12, seed=s + 1) for s in range(3)]
    method = zo_hfl(PROBLEM)
    together = jax.tree.map(lambda *a: jnp.stack(a), *(f._replace(arrays=()) for f in federations))
    together = together._replace(arrays=federations[0].arrays)
    plan = jax.tree.map(lambda *tables: np.stack(tables), *plans)
    engine = compiled(method, capacity=4, seeds=True)
    x = jax.tree.map(lambda a: jnp.stack([a] * 3), MODEL.init(None))
    state = engine.init(x, together)
    key = jnp.stack([keys.root(s) for s in range(3)])
    state, infos = engine.advance(state, together, plan, key, 0, 4)
    assert infos.estimate.shape == (3, 4)
    for s in range(3):
        alone, _ = play(compiled(method, capacity=4), federations[s], plans[s], 4, seed=s)
        assert distance(jax.tree.map(lambda a, s=s: a[s], state), alone) <= 1e-6


@pytest.mark.slow
def test_stretches_of_any_length_give_the_same_run_bit_for_bit():
    federation, plan = digits(), bumpy_plan(7)
    engine = compiled(zo_hfl(PROBLEM), capacity=7)
    whole, _ = play(engine, federation, plan, 7)
    state = engine.init(MODEL.init(None), federation)
    for first, count in ((0, 2), (2, 4), (6, 1)):
        state, _ = engine.advance(state, federation, plan, keys.root(0), first, count)
    assert distance(state, whole) == 0.0


@pytest.mark.slow
def test_nothing_is_traced_again_for_another_partition_or_plan():
    """That H, the seed and the number of rounds trace nothing either is a claim of the battery, for every method."""
    method, traces = zo_hfl(PROBLEM), []

    def counted(*args):
        traces.append(1)
        return method.local(*args)

    engine = compiled(method._replace(local=counted), capacity=6)
    play(engine, digits(), bumpy_plan(6), 6)
    first = len(traces)
    play(engine, digits(seed=9), bumpy_plan(6, seed=4), 5)
    assert len(traces) == first


@pytest.mark.parametrize("name", one_of_a_family(list(METHODS)))
def test_every_method_in_the_registry_passes_the_battery(name):
    check_method(METHODS[name].factory)


def with_aggregate(aggregate):
    return lambda problem: fedavg(problem)._replace(aggregate=aggregate)


def moved(server, delta):
    return server._replace(x=jax.tree.map(jnp.add, server.x, delta)), ()


def takes_the_first(server, owns, ups, specs, round):
    return moved(server, jax.tree.map(lambda a: a[0], ups.delta))


def forgets_arrived(server, owns, ups, specs, round):
    return moved(server, jax.tree.map(lambda a: jnp.mean(a, axis=0), ups.delta))


def multiplies_by_arrived(server, owns, ups, specs, round):
    return moved(server, jax.tree.map(lambda a: jnp.tensordot(round.arrived * 1.0, a, axes=1) / 3.0, ups.delta))


def changes_the_type(server, owns, ups, specs, round):
    return server._replace(x=jax.tree.map(lambda a: a.astype(jnp.float16), server.x)), ()


def sends_two_arrays_of_one_name(problem):
    method = fedavg(problem)

    def local(*args):
        client, up = method.local(*args)
        return client, {"delta.weight": up.delta.weight, "delta": up.delta}

    def aggregate(server, owns, ups, specs, round):
        return method.aggregate(server, owns, Up(ups["delta"]), specs, round)

    return method._replace(local=local, aggregate=aggregate)


def projects_even_without_a_step(problem):
    """Silent at H = 0 only where no constraint is active."""
    method = fedavg(problem)

    def local(client, shared, own, view, spec, turn):
        client, up = method.local(client, shared, own, view, spec, turn)
        y = problem.Y.project(jax.tree.map(jnp.add, shared.x, up.delta), shared.x, spec)
        return client, Up(jax.tree.map(jnp.subtract, y, shared.x))

    return method._replace(local=local)


def weighs_by_rows_but_claims_equal_weights(problem):
    return fedavg(problem)._replace(sums=fedavg(problem, weighting="uniform").sums)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factory", "claim"),
    [
        (with_aggregate(takes_the_first), "the order of the cohort does not matter"),
        (with_aggregate(forgets_arrived), "a lost reply is ignored, whatever it holds"),
        (with_aggregate(multiplies_by_arrived), "a lost reply is ignored, whatever it holds"),
        (with_aggregate(changes_the_type), "states keep their shapes and types"),
        (sends_two_arrays_of_one_name, "messages survive the codec"),
        (projects_even_without_a_step, "H = 0 for all is as if nobody had replied"),
        (weighs_by_rows_but_claims_equal_weights, "a round depends on sums alone, as the method says"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_battery_catches_what_it_is_there_for(factory, claim):
    (found,) = method_claims(factory, only=[claim])
    assert not found.holds and found.why


def test_a_claim_that_the_battery_does_not_make_is_refused():
    with pytest.raises(FedtierError, match="did you mean 'messages survive the codec'"):
        method_claims(fedavg, only=["messages survive codecs"])


@pytest.mark.slow
def test_the_battery_accepts_a_good_problem_and_names_what_a_bad_one_breaks():
    rows = Rows(jnp.ones((5, 64)), jnp.zeros(5, jnp.int32))
    check_problem(PROBLEM, MODEL.init(None), rows)
    with pytest.raises(AssertionError, match="f2"):
        check_problem(PROBLEM._replace(f2=lambda x, y, spec: jnp.nan * spec.weight), MODEL.init(None), rows)
    with pytest.raises(AssertionError, match="twice"):
        outward = PROBLEM.Y._replace(project=lambda y, x, spec: jax.tree.map(lambda a: 1.5 * a, y))
        check_problem(PROBLEM._replace(Y=outward), MODEL.init(None), rows)


@pytest.mark.slow
def test_a_seat_gives_the_servers_rows_to_one_more_client():
    federation = with_seat(digits())
    plan = bumpy_plan(3)
    seat = np.full((3, 1), 10, np.int32)
    plan = Plan(*(np.hstack([a, b]) for a, b in zip(plan[:3], (seat, seat * 0 + 2, seat > 0), strict=True)))
    state, _ = play(compiled(fedavg(PROBLEM), capacity=3), federation, plan, 3)
    without, _ = play(compiled(fedavg(PROBLEM), capacity=3), digits(), bumpy_plan(3), 3)
    assert federation.clients == 11
    assert float(federation.train.size[-1]) == float(federation.server.size)
    assert distance(state.server, without.server) > 1e-3


@pytest.mark.parametrize("make", [lambda method: compiled(method, capacity=3), messages], ids=["compiled", "messages"])
@pytest.mark.parametrize(("first", "count", "word"), [(-1, 1, "first"), (0, -1, "count"), (4, 3, "6 rounds")])
def test_rounds_that_the_plan_does_not_have_are_refused(make, first, count, word):
    federation, model = digits(), softmax(64, 10, bias=False)
    engine = make(fedavg(supervised(cross_entropy(model))))
    state = engine.init(model.init(None), federation)
    with pytest.raises(FedtierError, match=word):
        engine.advance(state, federation, bumpy_plan(rounds=6), keys.root(0), first, count)


def test_more_rounds_than_the_capacity_are_refused_with_the_capacity_they_need():
    federation, model = digits(), softmax(64, 10, bias=False)
    engine = compiled(fedavg(supervised(cross_entropy(model))), capacity=3)
    with pytest.raises(FedtierError, match="capacity=4"):
        engine.advance(engine.init(model.init(None), federation), federation, bumpy_plan(rounds=6), keys.root(0), 0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda method: compiled(method, capacity=3, devices=jax.devices()[:1]),
    lambda method: compiled(method, capacity=3),
    messages,
], ids=["one device", "all devices", "messages"])  # fmt: skip
def test_a_state_that_was_advanced_may_be_used_again(make):
    """The first state comes from `init`, the later ones from `advance`, which has put them on all devices."""
    federation, plan, engine = digits(), bumpy_plan(6), make(scaffold(PROBLEM))
    state = engine.init(MODEL.init(None), federation)
    for first in (0, 2, 4):
        before = jax.tree.map(np.array, state)
        one, _ = engine.advance(state, federation, plan, keys.root(0), first, 2)
        jax.tree.map(np.testing.assert_array_equal, state, before)
        again, _ = engine.advance(state, federation, plan, keys.root(0), first, 2)
        jax.tree.map(np.testing.assert_array_equal, again, one)
        assert distance(one, before) > 0
        state = one
