"""A federation of few numbers with a plain NumPy reference: each client moves x towards its own target, and remembers.

up_i = 0.5 (t_i + c_i - x) if H_i > 0 else 0        c_i <- c_i + H_i / 8, only when the reply counts
x <- x + mean of up_i over the replies that count
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys, trees
from fedtier.federation import Plan, View
from fedtier.methods.method import Method, Sums, counted_alike
from fedtier.problem import Spec
from fedtier.protocol import Driver, Job, Ledger, Memory, Player, Rules, Site

N = 3


class X(NamedTuple):
    x: Any


class Up(NamedTuple):
    delta: Any


class Client(NamedTuple):
    c: Any


def target(i: int) -> np.ndarray:
    return np.arange(1, N + 1, dtype=np.float32) * (i + 1)


def method() -> Method:
    def local(client, shared, own, view, spec, turn):
        raise NotImplementedError

    def aggregate(server, owns, ups, specs, round):
        return X(server.x + trees.mean_over(round.arrived, ups.delta)), ()

    return Method(
        "toy", server_init=X, broadcast=lambda server, round: server, local=local, aggregate=aggregate,
        global_model=lambda server: server.x, personal_model=lambda *a: None,
        sums=Sums(lambda up, spec: counted_alike(up.delta), lambda server, total, at: (X(server.x + total.mean), ())),
    )  # fmt: skip


METHOD = method()
SHAPE = jax.ShapeDtypeStruct((N,), np.float32)


def player(i: int) -> Player:
    def play(state, shared, own, turn, weight):
        steps = int(turn.steps)
        up = 0.5 * (target(i) + np.asarray(state.c) - np.asarray(shared.x)) * (steps > 0)
        return Client(np.asarray(state.c) + np.float32(steps / 8)), Up(up.astype(np.float32))

    return Player(SHAPE, X(SHAPE), (), 10 * (i + 1), 0, lambda x: Client(jnp.zeros(N)), play)


def site(i: int, folder=None, **more) -> Site:
    return Site(f"site-{i}", lambda brief, client: player(client), Memory(folder), **more)


def job(plan: Plan, clients: int) -> Job:
    view = View(np.zeros((1, 1), np.float32), np.zeros(1, np.int32), np.int32(0), np.int32(1))

    def specs(rows):
        return Spec(*(jnp.ones(clients) for _ in range(3)))

    names = tuple(f"site-{i}" for i in range(clients))
    return Job(b"r" * 16, names, METHOD, plan, keys.root(0), view, specs, Up(SHAPE), "a brief", np.zeros(N, np.float32))


def first(clients: int) -> Ledger:
    return Ledger.first(X(jnp.zeros(N)), clients)


def driver(plan: Plan, clients: int, ask, **more) -> Driver:
    rules = {"start": clients, "deadline": 0.2} | {k: more.pop(k) for k in list(more) if k in Rules._fields}
    return Driver(job(plan, clients), ask, Rules(**rules), **more)


def bumpy(rounds: int, clients: int, seed: int = 0) -> Plan:
    rng = np.random.default_rng(seed)
    cohort = max(1, clients - 1)
    ids = np.stack([np.sort(rng.choice(clients, cohort, replace=False)) for _ in range(rounds)]).astype(np.int32)
    return Plan(ids, rng.integers(0, 4, ids.shape).astype(np.int32), rng.random(ids.shape) > 0.15)


def reference(plan: Plan, clients: int, counted: list[set[int]]) -> np.ndarray:
    """x after len(counted) rounds in which just these replies counted."""
    x, c = np.zeros(N), np.zeros((clients, N))
    for ids, steps, came in zip(plan.ids, plan.steps, counted, strict=False):
        ups = [0.5 * (target(i) + c[i] - x) * (h > 0) for i, h in zip(ids.tolist(), steps, strict=True) if i in came]
        for i, h in zip(ids.tolist(), steps, strict=True):
            c[i] += h / 8 if i in came else 0.0
        x = x + (np.mean(ups, axis=0) if ups else 0.0)
    return x
