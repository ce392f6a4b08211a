"""Agnostic FL: the saddle point of the worst mixture of clients."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import agnostic, projected_sgd

from .quadratics import CLIENTS, PROBLEM, START, bowls, descend, everyone, fedavg, play, replies, same

A, B = bowls()


def on_simplex(z):
    """The nearest point of the simplex: max(z - theta, 0), theta by bisection."""
    low, high = z.min() - 1.0, z.max()
    for _ in range(200):
        theta = (low + high) / 2
        low, high = (theta, high) if np.maximum(z - theta, 0).sum() > 1 else (low, theta)
    return np.maximum(z - theta, 0)


@pytest.mark.known_answer("agnostic")
@pytest.mark.slow
def test_agnostic_weighs_the_moves_by_a_mixture_that_climbs_the_losses_at_the_model_that_was_sent():
    found, state, _ = play(agnostic, local=projected_sgd("inverse(0.3)"), mixture_lr=0.03, members=7)
    x, lam, models, least = START, np.full(CLIENTS, 1 / CLIENTS), [], 1.0
    for round in replies():
        told = [i for i, h in round if h]
        step = sum(lam[i] * (descend(x, A[i], B[i], h) - x) for i, h in round) * CLIENTS / max(1, len(round))
        climb = np.zeros(CLIENTS)
        for i in told:
            climb[i] = 0.5 * np.sum(A[i] * (x - B[i]) ** 2) * CLIENTS / len(told)
        x, lam = x + step, on_simplex(lam + 0.03 * climb)
        models.append(x)
        least = min(least, lam.min())
    assert least == 0.0  # the projection was at work
    same(state.server.x, x)
    np.testing.assert_allclose(state.server.weights, [*lam, 0.0, 0.0], rtol=1e-10, atol=1e-12)
    same(found, np.mean(models, axis=0))


@pytest.mark.known_answer("agnostic")
@pytest.mark.slow
def test_two_quadratics_meet_where_their_losses_are_equal():
    """a = 1, 3 and b = 0, 4: at sum sqrt(a) b / sum sqrt(a) = 2.5359, where the mixture's slope is 0."""
    a, b = np.asarray([[1.0], [3.0]]), np.asarray([[0.0], [4.0]])
    plan = everyone(3000, 1, clients=2)
    _, state, _ = play(agnostic, plan, bowls=(a, b), start=np.zeros(1), local=projected_sgd(0.05), mixture_lr=0.02)
    root = np.sqrt(a)
    x = float(np.sum(root * b) / np.sum(root))
    assert x == pytest.approx(2.5359, abs=1e-4)
    assert float(state.server.x[0]) == pytest.approx(x, rel=1e-8)
    slopes = (a * (x - b))[:, 0]
    assert float(state.server.weights[:2] @ slopes) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.known_answer("agnostic")
@pytest.mark.slow
def test_with_a_mixture_that_stands_still_it_is_fedavg_with_uniform_weights():
    _, state, _ = play(agnostic, local=projected_sgd("inverse(0.3)"), mixture_lr=0.0)
    same(state.server.x, fedavg(np.ones(CLIENTS)))


def test_bad_options_are_refused_and_so_is_a_federation_without_room():
    for bad in ({"mixture_lr": -0.1}, {"members": 0}):
        with pytest.raises(FedtierError, match=next(iter(bad))):
            agnostic(PROBLEM, **bad)
    with pytest.raises(FedtierError, match="at least the number of clients, 5"):
        play(agnostic, members=4)
