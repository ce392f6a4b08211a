"""Replies as K numbers: the server has the move itself on average, and exactly from n orthogonal directions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.engines.battery import check_method
from fedtier.errors import FedtierError
from fedtier.keys import Tag
from fedtier.methods import fedavg, make, projected, projected_sgd, scaffold
from fedtier.methods.zeroth_order.directions import directions
from fedtier.problem import supervised

from ..reference import at
from ..test_known_answers import CLIENTS, ROUNDS, START, N, averaged, bumpy_plan, points_apart, replies, same
from ..test_known_answers import C as STEP
from ..test_known_answers import end as ended

PLAN = bumpy_plan(ROUNDS, clients=CLIENTS)


def problem():
    return supervised(lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)))


def played(wrap):
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = wrap(fedavg(problem(), local=projected_sgd(f"inverse({STEP})")))
        engine = compiled(method, capacity=ROUNDS)
        state = engine.init(jnp.asarray(START), federation)
        state, _ = engine.advance(state, federation, PLAN, keys.root(0), 0, ROUNDS)
        return np.asarray(method.global_model(state.server)), np.asarray(federation.spec.weight), b


@pytest.mark.known_answer("fedavg")
@pytest.mark.slow
def test_n_orthogonal_directions_give_the_move_back():
    x, weights, b = played(functools.partial(projected, count=N, probes="orthogonal"))
    same(x, averaged(PLAN, weights, b))


@pytest.mark.slow
def test_k_normal_directions_are_the_products_with_the_draws_of_the_round():
    K = 2
    found, weights, b = played(functools.partial(projected, count=K))
    x = START
    for r, round in enumerate(replies(PLAN)):
        with jax.enable_x64(True):
            seed = at(keys.root(0), r, 0, Tag.DIRECTION)
            z = np.stack([np.asarray(jax.random.normal(at(seed, k, 0), (N,), np.float64)) for k in range(K)])
        if round:
            moves = [(weights[i], ended(x, x, b[i], h) - x) for i, h in round]
            x = x + sum(w * z.T @ (z @ move) / K for w, move in moves) / sum(w for w, _ in moves)
    same(found, x)


@pytest.mark.parametrize(("kind", "error"), [("normal", (5 + 1) / 2), ("orthogonal", 5 / 2 - 1)])
@pytest.mark.slow
def test_the_servers_move_is_right_on_average_with_the_stated_error(kind, error):
    """5 numbers on 2 directions, 40,000 times: the mean error of a mean is sqrt(error/40,000) |D|, here below 0.01 |D|."""
    move, times = jnp.asarray([0.3, -1.0, 0.5, 0.0, 2.0]), 40_000

    def rebuilt(k):
        z = directions(kind, keys.at(keys.root(1), k), move, 2)
        return sum(jnp.dot(z(p), move) * z(p) for p in range(2)) / 2

    found = np.asarray(jax.vmap(rebuilt)(jnp.arange(times)), np.float64)
    length = float(jnp.sum(move**2))
    assert np.linalg.norm(found.mean(axis=0) - np.asarray(move)) < 4 * np.sqrt(error / times * length)
    np.testing.assert_allclose(np.mean(np.sum((found - np.asarray(move)) ** 2, axis=1)) / length, error, rtol=0.05)


def test_a_reply_that_is_no_move_and_a_count_that_is_none_are_refused():
    federation, _, _ = points_apart()
    engine = compiled(projected(scaffold(problem()), 2), capacity=ROUNDS)
    with pytest.raises(FedtierError, match="projection = 2: is for replies that are the move of a model; scaffold"):
        engine.advance(engine.init(jnp.zeros(N), federation), federation, PLAN, keys.root(0), 0, 1)
    with pytest.raises(FedtierError, match="projection"):
        make("fedavg", problem(), {"projection": -1})
    with pytest.raises(FedtierError, match="probes"):
        projected(fedavg(problem()), 2, probes="spherical")


@pytest.mark.slow
@pytest.mark.checked
def test_the_battery_holds():
    check_method(lambda problem: make("fedavg", problem, {"projection": 3}))
