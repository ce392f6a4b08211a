"""SimFBO and ShroFBO where a minibatch is no chance: all rows of client i are the same three numbers A_i, c_i, d_i.

    g_i(x, y) = 1/2 (y - A_i x - c_i)^2       f_i(x, y) = 1/2 (y - d_i)^2 + 0.05 x^2

so that with means over the clients y(x) = A x + c, v = y - d, and the optimum is x = -A (c - d)/(A^2 + 0.1).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import Plan, build, partition
from fedtier.methods import fine_tune, projected_sgd, shrofbo, simfbo
from fedtier.problem import SharedLower, weight_decay

from ..federations import bumpy_plan
from ..test_known_answers import replies

CLIENTS, ROUNDS, C, RATES = 5, 8, 0.2, (0.7, 0.5)


class Numbers(NamedTuple):
    A: np.ndarray
    c: np.ndarray
    d: np.ndarray


SHARED = SharedLower(
    f=lambda x, y, rows: jnp.mean(0.5 * (y - rows.d) ** 2) + 0.05 * x**2,
    g=lambda x, y, rows: jnp.mean(0.5 * (y - rows.A * x - rows.c) ** 2),
    first=lambda y: y - 1.0,
)


def federation(equal):
    """(federation, the numbers of each client): 20 rows for each, or very unequal shares."""
    rng = np.random.default_rng(3)
    each = Numbers(*(rng.uniform(0.5, 2.0, (3, CLIENTS)) * [[1.0], [2.0], [-1.0]]))
    owner = np.repeat(np.arange(CLIENTS), 20) if equal else rng.choice(CLIENTS, 100, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    rows = Numbers(*(column[owner] for column in each))
    parties = build(rows, partition.natural(owner), clients=CLIENTS, rng=rng, test_share=0.0, server_share=0.0)
    return parties, each


def played(method, parties, plan, y):
    engine = compiled(method, capacity=len(plan.ids))
    state, _ = engine.advance(engine.init(jnp.asarray(y), parties), parties, plan, keys.root(0), 0, len(plan.ids))
    return tuple(float(a) for a in state.server)


def reference(plan, each, weights, y, radius, normalised):
    """(x, y, v) after the plan, from the paper's equations."""
    x, v = y - 1.0, 0.0
    for round in replies(plan):
        moves, paths = [], []
        for i, h in round:
            at = np.asarray([x, y, v])
            A, c, d = (column[i] for column in each)
            for t in range(h):
                xi, yi, vi = at
                slopes = [0.1 * xi + A * vi, yi - A * xi - c, vi - (yi - d)]
                at = at - C / (t + 1) * np.asarray([RATES[0], 1.0, RATES[1]]) * slopes
            moves.append(at - [x, y, v])
            paths.append(sum(C / (t + 1) for t in range(h)))
        kept = [k for k in range(len(round)) if paths[k] > 0] if normalised else list(range(len(round)))
        if kept:
            w = [weights[round[k][0]] for k in kept]
            rho = np.average([paths[k] for k in kept], weights=w)
            share = [rho / paths[k] if normalised else 1.0 for k in kept]
            x, y, v = np.asarray([x, y, v]) + np.mean(
                [a * s * moves[k] for a, s, k in zip(w, share, kept, strict=True)], axis=0
            )
            v = np.clip(v, -radius, radius)
    return x, y, v


@pytest.mark.known_answer("simfbo", "shrofbo")
@pytest.mark.parametrize("factory", [simfbo, shrofbo])
@pytest.mark.slow
def test_both_are_the_published_loop_with_unequal_steps_unequal_clients_and_lost_replies(factory):
    plan, radius = bumpy_plan(ROUNDS, clients=CLIENTS), 0.9
    with jax.enable_x64(True):
        parties, each = federation(equal=False)
        options = {"upper_rate": RATES[0], "adjoint_rate": RATES[1], "adjoint_radius": radius}
        method = factory(SHARED, local=projected_sgd(f"inverse({C})", batch=4), **options)
        found, weights = played(method, parties, plan, 1.0), np.asarray(parties.spec.weight)
    wanted = reference(plan, each, weights, 1.0, radius, factory is shrofbo)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    free = reference(plan, each, weights, 1.0, np.inf, factory is shrofbo)
    assert abs(free[2] - wanted[2]) > 1e-3  # the ball was met


def everyone(rounds, steps):
    ids = np.tile(np.arange(CLIENTS, dtype=np.int32), (rounds, 1))
    return Plan(ids, np.tile(np.asarray(steps, np.int32), (rounds, 1)), np.ones_like(ids, bool))


def optimum(each, weights):
    A, c, d = (np.average(column, weights=weights) for column in each)
    x = -A * (c - d) / (A**2 + 0.1)
    return np.asarray([x, A * x + c, A * x + c - d])


def standstill(each, steps, lr, normalised):
    """The (x, y, v) that a round with these steps does not move: a client's H steps are an affine map u -> M^H u + s."""
    total, shift = np.zeros((3, 3)), np.zeros(3)
    for A, c, d, h in zip(*each, steps, strict=True):
        M = np.eye(3) - lr * np.asarray([[0.1, 0.0, A], [-A, 1.0, 0.0], [0.0, -1.0, 1.0]])
        share = 1.0 / h if normalised else 1.0
        total += share * (np.linalg.matrix_power(M, h) - np.eye(3))
        shift += share * sum(np.linalg.matrix_power(M, k) for k in range(h)) @ (lr * np.asarray([0.0, c, -d]))
    return np.linalg.solve(total, -shift)


@pytest.mark.slow
@pytest.mark.known_answer("simfbo", "shrofbo")
@pytest.mark.parametrize(
    ("factory", "steps"), [(simfbo, [1, 1, 1, 1, 1]), (simfbo, [1, 2, 3, 4, 5]), (shrofbo, [1, 2, 3, 4, 5])]
)
def test_it_ends_at_the_solution_which_unequal_steps_move_for_simfbo_alone(factory, steps):
    with jax.enable_x64(True):
        parties, each = federation(equal=True)
        found = played(factory(SHARED, local=projected_sgd(0.2)), parties, everyone(2000, steps), 1.0)
    np.testing.assert_allclose(found, standstill(each, steps, 0.2, factory is shrofbo), rtol=1e-8)
    counts = steps if factory is simfbo else [1] * CLIENTS  # with short steps a client counts by its number of them
    np.testing.assert_allclose(standstill(each, steps, 1e-6, factory is shrofbo), optimum(each, counts), rtol=1e-4)
    assert np.abs(optimum(each, [1, 2, 3, 4, 5]) - optimum(each, [1] * CLIENTS)).max() > 0.03


@pytest.mark.known_answer("simfbo")
@pytest.mark.slow
def test_a_weight_decay_is_tuned_to_the_best_shrinkage():
    """The lower half of the rows is at b, the upper half at a: y = b/(1 + e^x), best where 1/(1 + e^x) = <a, b>/|b|^2."""
    a, b = np.asarray([1.0, 0.5, -0.2]), np.asarray([1.5, 0.6, 0.3])
    with jax.enable_x64(True):
        parties = build(np.zeros((10, 3)), partition.natural(np.zeros(10, int)), clients=1, rng=np.random.default_rng(0),
                        test_share=0.0, server_share=0.0)  # fmt: skip
        order, inputs = np.asarray(parties.index), np.zeros((10, 3))
        inputs[order[:5]], inputs[order[5:]] = b, a
        parties = parties._replace(arrays=jnp.asarray(inputs))
        problem = weight_decay(lambda y, rows: 0.5 * jnp.mean(jnp.sum((y[None] - rows) ** 2, -1)))
        method = simfbo(problem, local=projected_sgd(0.3, batch=4))
        plan = Plan(np.zeros((400, 1), np.int32), np.full((400, 1), 5, np.int32), np.ones((400, 1), bool))
        engine = compiled(method, capacity=400)
        state, _ = engine.advance(engine.init(jnp.zeros(3), parties), parties, plan, keys.root(0), 0, 400)
    share = a @ b / (b @ b)
    np.testing.assert_allclose(float(jnp.exp(state.server.x)), 1 / share - 1, rtol=1e-8)
    np.testing.assert_allclose(np.asarray(method.global_model(state.server)), share * b, rtol=1e-8)


@pytest.mark.parametrize("key", ["upper_rate", "adjoint_rate", "adjoint_radius"])
def test_what_makes_no_sense_is_refused(key):
    with pytest.raises(FedtierError, match=key):
        simfbo(SHARED, **{key: 0.0})
    with pytest.raises(FedtierError, match="personal"):
        simfbo(SHARED, personal=fine_tune(0.1))
    with pytest.raises(FedtierError, match="first"):
        weight_decay(lambda y, rows: jnp.zeros(()), first=0.0)
