"""`evaluate` measures the chosen clients and the global model, alike in every engine, on any number of devices and seeds."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import Measure, compiled, messages, sweep
from fedtier.errors import FedtierError
from fedtier.federation import in_turn, mean_over_rows
from fedtier.methods import METHODS, fedavg, scaffold
from fedtier.methods.method import turn_of
from fedtier.methods.solvers import projected_sgd
from fedtier.problem import cross_entropy, softmax, supervised

from ..methods.federations import bumpy_plan, digits

MODEL = softmax(64, 10)
PROBLEM = supervised(cross_entropy(MODEL), penalty=1.0, proximity=0.3)
CHOSEN, STEPS = np.asarray([7, 0, 3]), np.asarray([4, 0, 2])
DEVICES = tuple(jax.devices())
ADDRESSES = Measure(
    of_model=lambda x, server, test, total=in_turn: (server.size, test.size),
    of_client=lambda client, x, view, held, spec, turn: (
        view.size,
        held.size,
        spec.weight,
        turn.round,
        turn.client,
        turn.steps,
        jax.random.key_data(turn.key),
    ),
)


def personal(method):
    def of_client(client, x, view, held, spec, turn):
        return method.personal_model(client, x, view, spec, turn)

    return Measure(lambda x, server, test, total=in_turn: x, of_client)


def several(federations):
    together = jax.tree.map(lambda *a: jnp.stack(a), *(f._replace(arrays=()) for f in federations))
    return together._replace(arrays=federations[0].arrays)


@pytest.mark.parametrize("make", [compiled, messages])
@pytest.mark.slow
def test_each_chosen_client_is_measured_with_its_own_rows_limits_and_turn(make):
    federation, engine, key = digits(), make(fedavg(PROBLEM)), keys.root(5)
    state = engine.init(MODEL.init(None), federation)
    model, clients = engine.evaluate(state, federation, key, 11, STEPS, ADDRESSES, CHOSEN)
    assert [int(a) for a in model] == [int(federation.server.size), int(federation.test.size)]
    turns = [turn_of(jnp.asarray(11), jnp.asarray(i), jnp.asarray(h), key) for i, h in zip(CHOSEN, STEPS, strict=True)]
    np.testing.assert_array_equal(clients[0], np.asarray(federation.train.size)[CHOSEN])
    np.testing.assert_array_equal(clients[1], np.asarray(federation.held.size)[CHOSEN])
    np.testing.assert_array_equal(clients[2], np.asarray(federation.spec.weight)[CHOSEN])
    for found, wanted in zip(clients[3:6], ([11, 11, 11], CHOSEN, STEPS), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(clients[6], [jax.random.key_data(turn.key) for turn in turns])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ditto", "local_only"])  # both train a personal model, one without a global one
def test_compiled_and_messages_measure_the_same_personal_models(name):
    federation, plan, method = digits(), bumpy_plan(3), METHODS[name].factory(PROBLEM)
    engine, measure = compiled(method, capacity=3), personal(method)
    state, _ = engine.advance(engine.init(MODEL.init(None), federation), federation, plan, keys.root(0), 0, 3)
    given = (state, federation, keys.root(0), 3, STEPS, measure, CHOSEN)
    fast, slow = engine.evaluate(*given), messages(method).evaluate(*given)
    assert jax.tree.structure(fast) == jax.tree.structure(slow)
    for a, b in zip(jax.tree.leaves(fast), jax.tree.leaves(slow), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(b).max())


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two cores")
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.slow
def test_devices_that_share_seeds_clients_or_rows_measure_what_one_device_measures(number, monkeypatch):
    monkeypatch.setattr(sys.modules["fedtier.engines.compiled"], "WORTH", 0)  # rows are shared however few they are
    federations, method = [digits(seed=s) for s in range(number)], scaffold(PROBLEM)
    federation, key = several(federations), jnp.stack([keys.root(s) for s in range(number)])
    x = jax.tree.map(lambda a: jnp.stack([a] * number), MODEL.init(None))

    def of_model(x, server, test, total=in_turn):
        """Blocks of 32 rows: many for the server's, one or two for the test's; and none of nothing."""
        windows = (server, test, test._replace(size=jnp.zeros_like(test.size)))
        means = [mean_over_rows(lambda rows: jnp.sin(jnp.sum(rows.inputs, axis=-1)), view, 32, total) for view in windows]
        return x, *means

    measure, found = personal(method)._replace(of_model=of_model), []
    for devices in (DEVICES[:1], DEVICES, None):
        engine = compiled(method, seeds=True, devices=devices)
        found.append(engine.evaluate(engine.init(x, federation), federation, key, 0, STEPS, measure, CHOSEN))
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, other, found[0])
    engine = compiled(method)
    for s in range(number):
        alone = engine.evaluate(
            engine.init(MODEL.init(None), federations[s]), federations[s], key[s], 0, STEPS, measure, CHOSEN
        )
        for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[s], b, rtol=1e-5, atol=1e-6 * np.abs(b).max())


def test_an_evaluation_is_compiled_once_for_all_rounds_and_states():
    """Also for another federation of the same size."""
    traces, federation, method = [], digits(), fedavg(PROBLEM)

    def of_client(client, x, view, held, spec, turn):
        traces.append(1)
        return view.size

    engine, measure = compiled(method), Measure(lambda x, server, test, total=in_turn: x, of_client)
    state = engine.init(MODEL.init(None), federation)
    for number, steps in ((0, STEPS), (9, STEPS + 3)):
        engine.evaluate(state, federation, keys.root(number), number, steps, measure, CHOSEN)
    first = len(traces)
    engine.evaluate(state, digits(seed=3), keys.root(7), 20, STEPS, measure, CHOSEN[::-1])
    assert len(traces) == first


@pytest.mark.parametrize("make", [compiled, messages])
@pytest.mark.parametrize(("chosen", "steps"), [([10], [1]), ([-1], [1]), ([], []), ([0, 1], [1])])
def test_a_client_that_is_not_there_or_has_no_steps_is_refused(make, chosen, steps):
    federation, engine = digits(), make(fedavg(PROBLEM))
    state = engine.init(MODEL.init(None), federation)
    with pytest.raises(FedtierError, match=r"chosen|steps"):
        engine.evaluate(state, federation, keys.root(0), 0, np.asarray(steps, int), ADDRESSES, chosen)


@pytest.mark.slow
@pytest.mark.parametrize("points", [1, 3])
def test_a_sweep_is_every_point_with_every_seed(points):
    federations, plans = [digits(seed=s) for s in range(2)], [bumpy_plan(2, seed=s + 48) for s in range(2)]
    rates = np.linspace(0.05, 0.2, points, dtype=np.float32)
    key = jnp.stack([keys.root(s) for s in range(2)])
    plan = jax.tree.map(lambda *tables: jnp.stack(tables), *plans)

    def end(rate, federation, plan, key, devices=()):
        engine = compiled(fedavg(PROBLEM, local=projected_sgd(lambda t: rate / (t + 1))), capacity=2, devices=devices)
        state, _ = engine.advance(engine.init(MODEL.init(None), federation), federation, plan, key, 0, 2)
        return state.server.x.weight

    found = sweep(end, jnp.asarray(rates), several(federations), plan, key)
    assert found.shape[:2] == (points, 2)
    for k, rate in enumerate(rates):
        for s in range(2):
            alone = np.asarray(end(float(rate), federations[s], plans[s], key[s], None))
            np.testing.assert_allclose(found[k, s], alone, rtol=1e-5, atol=1e-6 * np.abs(alone).max())
