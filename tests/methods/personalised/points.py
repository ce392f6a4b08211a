"""A federation where nothing is left to chance but who takes part: all rows of a client are one point b_i with the label a_i.

f1(y) = a_i/2 |y - b_i|^2,  so that grad f1(y) = a_i (y - b_i) whatever rows are drawn
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import build, partition
from fedtier.methods import turn_of
from fedtier.problem import Rows, supervised

from ..federations import bumpy_plan
from ..test_known_answers import replies

CLIENTS, N, ROUNDS = 5, 3, 8
START = np.asarray([1.0, -2.0, 0.5])
A = np.asarray([0.5, 1.0, 2.0, 1.5, 0.8])
B = np.random.default_rng(3).standard_normal((CLIENTS, N))


def loss(x, rows):
    return 0.5 * jnp.mean(rows.labels * jnp.sum((x[None] - rows.inputs) ** 2, -1))


PROBLEM = supervised(loss)


def gradient(i, y):
    return A[i] * (y - B[i])


def end(i, y, steps, c):
    """y after `steps` steps of sizes c/(t + 1) at client i."""
    return B[i] + np.prod([1.0 - A[i] * c / (t + 1.0) for t in range(steps)]) * (y - B[i])


def federation():
    rng = np.random.default_rng(3)
    owner = rng.choice(CLIENTS, 120, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    rows = Rows(B[owner], A[owner])
    return build(rows, partition.natural(owner), clients=CLIENTS, rng=rng, test_share=0.0, server_share=0.0)


class Played:
    """A method after some rounds of this federation, in float64."""

    def __init__(self, method, plan=None, x=START, data=None, clients=lambda state: state):
        self.plan = bumpy_plan(ROUNDS, clients=CLIENTS) if plan is None else plan
        self.method = method
        with jax.enable_x64(True):
            self.federation = federation() if data is None else data
            self.weights = np.asarray(self.federation.spec.weight)
            rounds = len(self.plan.ids)
            engine = compiled(method, capacity=rounds)
            state = engine.init(jax.tree.map(jnp.asarray, x), self.federation)
            state = state._replace(clients=clients(state.clients))
            self.state, self.infos = engine.advance(state, self.federation, self.plan, keys.root(0), 0, rounds)
            x = method.global_model(self.state.server)
            self.x = None if x is None else jax.tree.map(np.asarray, x)
            self.clients = jax.tree.map(np.asarray, self.state.clients)

    def personal(self, i, steps, new=False):
        """The personal model of client i after `steps` steps; of one that never took part where it is `new`."""
        client = None if new else jax.tree.map(lambda a: a[i], self.clients)
        return personal_of(self.method, self.x, i, steps, self.federation, client)


def personal_of(method, x, i, steps, data=None, client=None):
    """The personal model of client i with this state, by default that of one that never took part."""
    with jax.enable_x64(True):
        data = federation() if data is None else data
        train, spec = jax.tree.map(lambda a: jnp.asarray(a)[i], (data.train, data.spec))
        x = jax.tree.map(jnp.asarray, x)
        state = method.client_init(x, spec) if client is None else jax.tree.map(jnp.asarray, client)
        made = jax.jit(method.personal_model)(state, x, data.view(train), spec, turn_of(ROUNDS, i, steps, keys.root(0)))
        return jax.tree.map(np.asarray, made)


def moves(method, x, steps, data=None):
    """[m, n] what every client sends after `steps` steps from x, each in its first turn."""
    with jax.enable_x64(True):
        data, x = federation() if data is None else data, jax.tree.map(jnp.asarray, x)

        def one(i, train, spec):
            shared = method.broadcast(method.server_init(x), None)
            turn = turn_of(0, i, steps, keys.root(0))
            return method.local(method.client_init(x, spec), shared, (), data.view(train), spec, turn)

        ids = jnp.arange(data.clients)
        clients, ups = jax.jit(jax.vmap(one))(ids, *jax.tree.map(jnp.asarray, (data.train, data.spec)))
        return jax.tree.map(np.asarray, clients), jax.tree.map(np.asarray, ups.delta)


def mean_move(round, weights, moves, weighting="uniform"):
    """The mean of the moves of the replies that arrived, by rows or alike; 0 where none did."""
    w = {i: weights[i] if weighting == "data" else 1.0 for i, _ in round}
    return sum(w[i] * moves[i] for i, _ in round) / sum(w.values()) if round else 0.0


def same(found, wanted, tolerance=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=1e-12)


__all__ = ["Played", "mean_move", "moves", "personal_of", "replies", "same"]
