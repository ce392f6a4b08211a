"""APFL: the mixture, its weight, and both ends of it."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import apfl, projected_sgd

from .points import CLIENTS, PROBLEM, START, Played, end, gradient, mean_move, replies, same

C, RATE = 0.2, 3.0
LOCAL = projected_sgd(f"inverse({C})")


@pytest.fixture(scope="module")
def learnt():
    return Played(apfl(PROBLEM, mixing=0.6, mixing_rate=RATE, local=LOCAL, weighting="data"))


def step(i, w, v, alpha, s):
    """The three updates of the paper at once."""
    u = alpha * v + (1 - alpha) * w
    g = gradient(i, u)
    return w - s * gradient(i, w), v - s * alpha * g, alpha - s * RATE * np.dot(v - w, g)


@pytest.mark.known_answer("apfl")
@pytest.mark.slow
def test_apfl_moves_the_global_model_the_own_model_and_their_weight_along_the_gradients_of_the_mixture(learnt):
    x, v, alpha = START, np.tile(START, (CLIENTS, 1)), np.full(CLIENTS, 0.6)
    beyond = 0.0
    for round in replies(learnt.plan):
        moves = {}
        for i, h in round:
            w = x
            for t in range(h):
                w, v[i], free = step(i, w, v[i], alpha[i], C / (t + 1))
                beyond = max(beyond, free - 1, -free)
                alpha[i] = np.clip(free, 0, 1)
            moves[i] = w - x
        x = x + mean_move(round, learnt.weights, moves, "data")
    same(learnt.x, x)
    same(learnt.clients.v, v)
    same(learnt.clients.alpha, alpha)
    assert beyond > 0.01 and np.ptp(alpha) > 0.1 and np.abs(x - START).max() > 0.1


@pytest.mark.slow
@pytest.mark.known_answer("apfl")
def test_apfl_with_a_weight_of_0_is_fedavg_and_with_a_weight_of_1_every_client_alone():
    """Clients 0, 2 and 4 have the weight 0, clients 1 and 3 the weight 1."""
    ends = np.asarray([0.0, 1.0, 0.0, 1.0, 0.0])
    found = Played(apfl(PROBLEM, mixing_rate=0.0, local=LOCAL), clients=lambda state: state._replace(alpha=jnp.asarray(ends)))
    x, alone = START, np.tile(START, (CLIENTS, 1))
    for round in replies(found.plan):
        x = x + mean_move(round, found.weights, {i: end(i, x, h, C) - x for i, h in round})
        for i, h in round:
            alone[i] = end(i, alone[i], h, C)
    same(found.x, x)
    same(found.clients.v, np.where(ends[:, None], alone, START))
    same(found.personal(0, 3), x)
    same(found.personal(1, 3), end(1, alone[1], 6, C))  # x stands still, so that a step costs one gradient instead of two


@pytest.mark.parametrize("new", [False, True])
def test_the_personal_model_is_the_mixture_with_x_after_further_steps_of_its_own_part(learnt, new):
    v, alpha = (learnt.x, 0.6) if new else (learnt.clients.v[1], learnt.clients.alpha[1])
    for t in range(2 * 3):
        _, v, alpha = step(1, learnt.x, v, alpha, C / (t + 1))
        alpha = np.clip(alpha, 0, 1)
    same(learnt.personal(1, 3, new), alpha * v + (1 - alpha) * learnt.x)


@pytest.mark.parametrize(("key", "value"), [("mixing", 1.5), ("mixing", -0.1), ("mixing_rate", -1.0), ("weighting", "rows")])
def test_options_that_cannot_be_are_refused_by_name(key, value):
    with pytest.raises(FedtierError, match=key):
        apfl(PROBLEM, **{key: value})
