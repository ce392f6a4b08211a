"""MOON against NumPy, and where it is FedAvg."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import View, build, partition
from fedtier.methods import make, moon
from fedtier.methods.method import turn_of
from fedtier.problem import Model, Rows, cross_entropy, softmax, supervised

from ..federations import bumpy_plan

# Outputs are y itself: f1 = 1/2 |y - b|^2 on rows that are all b; features are y * u, u the row's second half.
N, C, MU, T = 3, 0.3, 0.8, 0.5
NET = Model("points", lambda key: jnp.zeros(N), lambda x, inputs: inputs, lambda x, inputs: x[None] * inputs[:, N:])


def loss(x, rows):
    return 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs[:, :N]) ** 2, -1))


PROBLEM = supervised(loss)._replace(model=NET)
RNG = np.random.default_rng(5)
B, U, START = RNG.standard_normal((5, N)), RNG.standard_normal((5, N)), np.asarray([1.0, -2.0, 0.5])
ROWS = [10, 20, 30, 15, 25]
WEIGHTS = np.asarray(ROWS) / np.mean(ROWS)


def federation():
    owner = np.repeat(np.arange(5), ROWS)
    data = Rows(np.concatenate([B, U], axis=1)[owner], np.zeros(100, np.int32))
    made = build(data, partition.natural(owner), clients=5, rng=np.random.default_rng(0), server_share=0, test_share=0)
    return made._replace(arrays=jax.tree.map(jnp.asarray, made.arrays))


def play(name, options, plan, start=START):
    with jax.enable_x64(True):
        method = make(name, PROBLEM, {"client_lr": f"inverse({C})"} | options)
        engine, parties = compiled(method, capacity=len(plan.ids)), federation()
        state, _ = engine.advance(engine.init(jnp.asarray(start), parties), parties, plan, keys.root(0), 0, len(plan.ids))
        return jax.tree.map(np.asarray, state)


def cosine_slope(y, other, u):
    """d cos(y u, other u)/dy."""
    a, b = y * u, other * u
    la, lb = np.linalg.norm(a), np.linalg.norm(b)
    return u * (b / (la * lb) - (a @ b) * a / (la**3 * lb))


def step(y, x, previous, i):
    a, b = (np.dot(y * U[i], o * U[i]) / np.linalg.norm(y * U[i]) / np.linalg.norm(o * U[i]) / T for o in (x, previous))
    p = np.exp(b) / (np.exp(a) + np.exp(b))  # d(-log(e^a/(e^a + e^b))) = p (db - da)
    return y - B[i] + MU * p * (cosine_slope(y, previous, U[i]) - cosine_slope(y, x, U[i])) / T


@pytest.mark.known_answer("moon")
def test_moon_is_fedavg_with_the_slope_of_the_contrast():
    plan, x, previous = bumpy_plan(10, clients=5), START, np.tile(START, (5, 1))
    state = play("moon", {"contrast": MU, "temperature": T}, plan)
    for ids, steps, arrived in zip(plan.ids, plan.steps, plan.arrived, strict=True):
        came = [(int(i), int(h)) for i, h, ok in zip(ids, steps, arrived, strict=True) if ok]
        ends = {}
        for i, h in came:
            y = x
            for t in range(h):
                y = y - C / (t + 1.0) * step(y, x, previous[i], i)
            ends[i] = y
        for i, h in came:
            previous[i] = ends[i] if h else previous[i]
        if came:
            x = x + sum(WEIGHTS[i] * (ends[i] - x) for i, _ in came) / sum(WEIGHTS[i] for i, _ in came)
    np.testing.assert_allclose(state.server.x, x, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.clients.previous, previous, rtol=1e-9, atol=1e-10)


@pytest.mark.known_answer("moon")
@pytest.mark.slow
def test_moon_without_contrast_is_fedavg():
    plan = bumpy_plan(6, clients=5)
    wanted = play("fedavg", {}, plan).server.x
    np.testing.assert_allclose(play("moon", {"contrast": 0.0}, plan).server.x, wanted, rtol=1e-12)
    assert np.abs(wanted - START).max() > 0.1


@pytest.mark.known_answer("moon")
@pytest.mark.slow
def test_a_clients_first_turn_is_fedavgs_whatever_the_contrast():
    """prev = x: the two cosines are one, and their slopes cancel."""
    with jax.enable_x64(True):
        parties, turn = federation(), turn_of(0, 1, 4, keys.root(0))
        view = View(parties.arrays, parties.index, *(a[1] for a in parties.train))
        spec = jax.tree.map(lambda a: a[1], parties.spec)
        moves = []
        for name, options in (("fedavg", {}), ("moon", {"contrast": 10.0})):
            method = make(name, PROBLEM, options)
            server, client = method.server_init(jnp.asarray(START)), method.client_init(jnp.asarray(START), spec)
            moves.append(np.asarray(method.local(client, method.broadcast(server, None), (), view, spec, turn)[1].delta))
        np.testing.assert_allclose(moves[1], moves[0], rtol=1e-12)


def test_a_model_without_features_is_refused():
    model = softmax(4, 2)
    for problem in (supervised(cross_entropy(model)), supervised(cross_entropy(model))._replace(model=model)):
        with pytest.raises(FedtierError, match=r"moon needs a model with features(.|\n)*mlp"):
            moon(problem)


@pytest.mark.parametrize("bad", [{"contrast": -1.0}, {"temperature": 0.0}])
def test_moon_refuses_bad_options(bad):
    with pytest.raises(FedtierError, match=next(iter(bad))):
        moon(PROBLEM, **bad)
