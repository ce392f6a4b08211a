"""A federation on which minibatches are no matter of chance, and the asynchronous plans that the tests play on it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import Clock, asynchronous_plan, build, partition
from fedtier.methods import make
from fedtier.problem import Rows, supervised

from .reference import CLIENTS, START, TAUS, C, N, play

SEED, ROUNDS = 11, 40
SLOWNESS = np.asarray([1.0, 10.0, 2.3, 4.1, 1.7, 6.6])
CLOCK = Clock(SLOWNESS, 0.5, 0.25)
KEYS = {"client_lr": f"inverse({C})"}


def points():
    """(federation, b): all rows of client i are the point b_i, with as many bits as JAX has now."""
    return _points(bool(jax.config.jax_enable_x64))


@functools.cache
def _points(wide):
    rng = np.random.default_rng(3)
    b = rng.standard_normal((CLIENTS, N))
    owner = rng.choice(CLIENTS, 150, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    blank = Rows(np.zeros((150, N)), np.zeros(150, np.int32))
    federation = build(blank, partition.natural(owner), clients=CLIENTS, rng=rng, test_share=0.0)
    inputs, index = np.zeros((150, N)), np.asarray(federation.index)
    for i, (first, size) in enumerate(zip(federation.train.start, federation.train.size, strict=True)):
        inputs[index[int(first) : int(first) + int(size)]] = b[i]
    return federation._replace(arrays=Rows(jnp.asarray(inputs), jnp.asarray(blank.labels))), b


def problem():
    return supervised(lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)))


def plan_of(buffer, working=1.0, rounds=ROUNDS, clock=CLOCK, stragglers=0.2, dropouts=0.2):
    return asynchronous_plan(
        np.random.default_rng(SEED), clock, clients=CLIENTS, rounds=rounds, buffer=buffer, participation=working, tau=TAUS,
        stragglers=stragglers, dropouts=dropouts,
    )  # fmt: skip


def model_after(name, options, plan, engine=compiled, **of_engine):
    """x after all rounds of `plan`, in float64."""
    with jax.enable_x64(True):
        method = make(name, problem(), KEYS | options)
        runs = engine(method, history=plan.history, **of_engine)
        state = runs.init(jnp.asarray(START), points()[0])
        state, _ = runs.advance(state, points()[0], plan, keys.root(0), 0, plan.rounds)
        return np.asarray(method.global_model(state.server))


def queue(buffer, update, working=CLIENTS, rho=0.0):
    """What the reference finds for `plan_of(buffer)`."""
    return play(
        SEED, SLOWNESS, points()[1], step_seconds=0.5, latency=0.25, working=working, buffer=buffer, server_steps=ROUNDS,
        stragglers=0.2, dropouts=0.2, update=update, rho=rho,
    )  # fmt: skip


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert np.abs(wanted - START).max() > 0.1
