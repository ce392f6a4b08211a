"""Federations for the clustered methods: all rows of a client are one point b_i, so that grad f1(y) = y - b_i."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import Plan, build, partition
from fedtier.methods import make
from fedtier.problem import Rows, supervised

C = 0.4


def points(b, rows):
    """The federation of clients whose rows are all b_i; client i has rows[i] of them."""
    owner = np.repeat(np.arange(len(b)), rows)
    data = Rows(b[owner], np.zeros(len(owner), np.int32))
    whole = {"server_share": 0.0, "test_share": 0.0}
    with jax.enable_x64(True):
        made = build(data, partition.natural(owner), clients=len(b), rng=np.random.default_rng(0), **whole)
        return made._replace(arrays=jax.tree.map(jnp.asarray, made.arrays))


def distance(x, rows):
    return 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1))


@functools.cache
def engine_of(name, options):
    """(method, engine): tests with the same options share what is compiled."""
    method = make(name, supervised(distance), {"client_lr": f"inverse({C})"} | dict(options))
    return method, compiled(method, capacity=1)


def play(name, options, federation, plan, start, models=None):
    """(method, the server's state after every round) in float64, from these `models` where they are given."""
    with jax.enable_x64(True):
        method, engine = engine_of(name, tuple(options.items()))
        state, seen = engine.init(jnp.asarray(start), federation), []
        if models is not None:
            state = state._replace(server=state.server._replace(x=jnp.asarray(models)))
        for r in range(len(plan.ids)):
            state, _ = engine.advance(state, federation, plan, keys.root(0), r, 1)
            seen.append(jax.tree.map(np.asarray, state.server))
        return method, seen


def everyone(clients, rounds, steps=2):
    """All clients in all rounds with the same steps."""
    ids = np.tile(np.arange(clients, dtype=np.int32), (rounds, 1))
    return Plan(ids, np.full_like(ids, steps), np.ones_like(ids, bool))


def replies(plan):
    """Of each round: (client, steps) of the replies that arrived."""
    for ids, steps, arrived in zip(plan.ids, plan.steps, plan.arrived, strict=True):
        yield [(int(i), int(h)) for i, h, ok in zip(ids, steps, arrived, strict=True) if ok]


def end(y, b, steps):
    """Where `steps` steps of sizes C/(t + 1) on y - b end."""
    return b + np.prod([1.0 - C / (t + 1.0) for t in range(steps)]) * (y - b)


def averaged(plan, start, b, weights):
    """FedAvg's model after every round."""
    x = start
    for round in replies(plan):
        if round:
            x = x + sum(weights[i] * (end(x, b[i], h) - x) for i, h in round) / sum(weights[i] for i, _ in round)
        yield x
