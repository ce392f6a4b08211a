"""A federation without chance: all rows of client i are one pair (a_i, b_i), so that every minibatch has the gradient

    grad f1(y) = a_i (y - b_i)

coordinate by coordinate, and a round is arithmetic. The plan has unequal steps, stragglers and lost replies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import Plan, View, build, partition
from fedtier.methods.averaging.counted import Counted
from fedtier.methods.method import Round
from fedtier.problem import Rows, Spec, supervised

from ..federations import bumpy_plan

CLIENTS, N, ROUNDS, C = 5, 3, 8, 0.3
START = np.asarray([1.0, -2.0, 0.5])
PLAN = bumpy_plan(ROUNDS, clients=CLIENTS)


def loss(x, rows):
    a, b = jnp.split(rows.inputs, 2, axis=-1)
    return 0.5 * jnp.mean(jnp.sum(a * (x[None] - b) ** 2, -1))


PROBLEM = supervised(loss)


@functools.cache
def bowls(clients=CLIENTS, n=N):
    """(a, b) of the clients, one row each."""
    rng = np.random.default_rng(3)
    return np.exp(rng.uniform(-0.7, 0.7, (clients, n))), rng.standard_normal((clients, n))


def federation_of(a, b):
    """Unequal numbers of rows, client i with the rows (a_i, b_i); call it inside jax.enable_x64."""
    clients, n = a.shape
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(clients), np.arange(clients)[::-1] * 9 + 10)
    blank = Rows(np.zeros((len(owner), 2 * n)), np.zeros(len(owner), np.int32))
    federation = build(blank, partition.natural(owner), clients=clients, rng=rng, test_share=0.0)
    inputs, index = np.zeros((len(owner), 2 * n)), np.asarray(federation.index)
    for i, (first, size) in enumerate(zip(federation.train.start, federation.train.size, strict=True)):
        inputs[index[int(first) : int(first) + int(size)]] = np.concatenate([a[i], b[i]])
    return federation._replace(arrays=Rows(jnp.asarray(inputs), jnp.asarray(blank.labels)))


def play(factory, plan=PLAN, *, bowls=None, start=START, **options):
    """(global model, state, weights w_i) after the plan's rounds of factory(PROBLEM, **options), in float64."""
    a, b = bowls or globals()["bowls"]()
    with jax.enable_x64(True):
        federation = federation_of(a, b)
        method, rounds = factory(PROBLEM, **options), plan.ids.shape[0]
        engine = compiled(method, capacity=rounds)
        state = engine.init(jnp.asarray(start), federation)
        state, _ = engine.advance(state, federation, plan, keys.root(0), 0, rounds)
        x = np.asarray(method.global_model(state.server))
        return x, jax.tree.map(np.asarray, state), np.asarray(federation.spec.weight)


def closed(method, start, deltas, steps=1):
    """The server's state after one round from `start`: every client made `steps` and replied its row of `deltas`."""
    with jax.enable_x64(True):
        k = len(deltas)
        ups = Counted(jnp.asarray(deltas), jnp.full(k, steps))
        ones = jnp.ones(k)
        round = Round(jnp.asarray(0), jnp.arange(k), ones > 0, k, View((), jnp.arange(0), 0, 0), keys.root(0))
        server, _ = method.aggregate(method.server_init(jnp.asarray(start)), (), ups, Spec(ones, ones, ones), round)
        return jax.tree.map(np.asarray, server)


def fedavg(w, plan=PLAN, *, bowls=None, **how):
    """FedAvg's model with weights w_i; `how` for `descend`."""
    x, (a, b) = START, bowls or globals()["bowls"]()
    for round in replies(plan):
        if round:
            x = mean([descend(x, a[i], b[i], h, **how) for i, h in round], [w[i] for i, _ in round])
    return x


def everyone(rounds, steps, clients=CLIENTS):
    """A plan in which all clients reply in all rounds; `steps` for all, or one number each."""
    ids = np.tile(np.arange(clients, dtype=np.int32), (rounds, 1))
    return Plan(ids, np.broadcast_to(np.asarray(steps, np.int32), ids.shape).copy(), np.ones(ids.shape, bool))


def replies(plan=PLAN):
    """Of each round: (client, steps) of the replies that arrived."""
    for ids, steps, arrived in zip(plan.ids, plan.steps, plan.arrived, strict=True):
        yield [(int(i), int(h)) for i, h, ok in zip(ids, steps, arrived, strict=True) if ok]


def falling(t):
    return C / (t + 1.0)


def descend(x, a, b, steps, *, size=falling, mu=0.0, rho=0.0, decay=0.0, also=0.0):
    """y after SGD from x: m <- rho m + a (y - b) + decay y + mu (y - x) + also; y <- y - size(t) m."""
    y, m = x, np.zeros_like(x)
    for t in range(steps):
        m = rho * m + a * (y - b) + decay * y + mu * (y - x) + also
        y = y - size(t) * m
    return y


def mean(values, weights):
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def same(found, wanted, start=START):
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert np.abs(np.asarray(wanted) - start).max() > 0.1
