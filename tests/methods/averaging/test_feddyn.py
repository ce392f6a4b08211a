"""FedDyn: y_i by FedProx with the client's own slope, g_i and h, x <- mean of y_i - h/mu."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.methods import feddyn, projected_sgd

from .quadratics import CLIENTS, PROBLEM, START, N, bowls, descend, play, replies, same

A, B = bowls()


@pytest.mark.known_answer("feddyn")
def test_feddyn_learns_each_clients_slope_and_takes_their_mean_from_the_model():
    mu = 0.8
    _, state, _ = play(feddyn, local=projected_sgd("inverse(0.3)"), proximity=mu)
    x, h, g = START, np.zeros(N), np.zeros((CLIENTS, N))
    for round in replies():
        moved = [(i, steps) for i, steps in round if steps]
        if moved:
            ends = {i: descend(x, A[i], B[i], steps, mu=mu, also=-g[i]) for i, steps in moved}
            for i, y in ends.items():
                g[i] = g[i] - mu * (y - x)
                h = h - mu / CLIENTS * (y - x)
            x = sum(ends.values()) / len(ends) - h / mu
    same(state.server.x, x)
    np.testing.assert_allclose(state.server.h, h, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.clients.g, g, rtol=1e-10, atol=1e-12)


@pytest.mark.known_answer("feddyn")
@pytest.mark.slow
def test_with_exact_solves_of_one_random_client_a_round_it_ends_at_the_optimum_of_the_uniform_mean():
    """There g_i = a_i (x - b_i), and h, the mean of the g_i, is 0."""
    ids = np.random.default_rng(0).integers(0, CLIENTS, (600, 1)).astype(np.int32)
    plan = Plan(ids, np.full(ids.shape, 60, np.int32), np.ones(ids.shape, bool))
    _, state, _ = play(feddyn, plan, local=projected_sgd(0.4), proximity=1.0)
    best = np.sum(A * B, 0) / np.sum(A, 0)
    np.testing.assert_allclose(state.server.x, best, rtol=1e-8)
    np.testing.assert_allclose(state.clients.g, A * (best - B), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(state.server.h, 0.0, atol=1e-8)


def test_a_proximity_of_0_is_refused():
    with pytest.raises(FedtierError, match="proximity"):
        feddyn(PROBLEM, proximity=0.0)
