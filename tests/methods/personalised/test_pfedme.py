"""pFedMe: the inner and the outer step, and the optimum of the envelopes."""

from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.comparison import make_comparison
from fedtier.methods import pfedme, projected_sgd

from .points import CLIENTS, PROBLEM, START, A, B, Played, gradient, mean_move, moves, replies, same

C, LAM, K, ETA, BETA = 0.2, 0.9, 3, 0.3, 1.5
LOCAL = projected_sgd(f"inverse({C})")


def at_client(i, x, theta, steps, lam=LAM):
    """(w, theta) of client i after its turn, as published."""
    w = x
    for t in range(steps):
        for _ in range(K):
            theta = theta - C / (t + 1) * (gradient(i, theta) + lam * (theta - w))
        w = w - ETA * lam * (w - theta)
    return w, theta


@pytest.mark.known_answer("pfedme")
@pytest.mark.slow
def test_pfedme_solves_for_theta_and_moves_w_towards_it():
    method = pfedme(PROBLEM, proximity=LAM, inner_steps=K, outer_lr=ETA, server_rate=BETA, local=LOCAL, weighting="data")
    found = Played(method)
    x, theta = START, np.tile(START, (CLIENTS, 1))
    for round in replies(found.plan):
        ends = {i: at_client(i, x, theta[i], h) for i, h in round}
        for i, (_, last) in ends.items():
            theta[i] = last
        x = x + BETA * mean_move(round, found.weights, {i: w - x for i, (w, _) in ends.items()}, "data")
    same(found.x, x)
    same(found.clients.theta, theta)
    assert np.abs(x - START).max() > 0.1
    for new in (False, True):  # the personal model: theta on its own, x standing still
        personal = x if new else theta[1]
        for t in range(K * 2):
            personal = personal - C / (t + 1) * (gradient(1, personal) + LAM * (personal - x))
        same(found.personal(1, 2, new), personal)


@pytest.mark.known_answer("pfedme")
def test_pfedme_with_exact_inner_solves_stands_still_at_the_optimum_of_the_envelopes():
    """k_i = a_i lambda/(a_i + lambda): neither the pooled optimum nor that of lambda/2 |x - y_i(x)|^2, with k_i = s_i^2."""
    k = A * LAM / (A + LAM)
    optimum = k @ B / k.sum()
    method = pfedme(PROBLEM, proximity=LAM, inner_steps=200, outer_lr=ETA, local=projected_sgd(0.4))
    thetas, sent = moves(method, optimum, 1)
    same(thetas.theta, (A[:, None] * B + LAM * optimum) / (A[:, None] + LAM))
    np.testing.assert_allclose(sent.sum(0), 0.0, atol=1e-12)
    assert np.abs(sent).max() > 0.01
    for other in (A, (A / (A + LAM)) ** 2):
        assert np.abs(other @ B / other.sum() - optimum).max() > 0.01


@pytest.mark.slow
@pytest.mark.known_answer("pfedme")
def test_pfedme_without_a_pull_sends_nothing_and_every_client_goes_its_own_way():
    thetas, sent = moves(pfedme(PROBLEM, proximity=0.0, inner_steps=K, outer_lr=ETA, local=LOCAL), START, 4)
    assert not sent.any()
    same(thetas.theta, [at_client(i, START, START, 4, 0.0)[1] for i in range(CLIENTS)])


def test_a_step_is_counted_as_the_gradients_it_takes():
    entries = [{"name": "fedavg"}, {"name": "pfedme", "inner_steps": 4}, {"name": "per_fedavg"}, {"name": "apfl"}]
    entries += [{"name": "per_fedavg", "label": "first order", "first_order": True}]
    taus = {cell.method: cell.config.run.tau for cell in make_comparison({"methods": entries}, Path("cells")).cells}
    assert taus == {"fedavg": 20.0, "pfedme": 5.0, "per_fedavg": 5.0, "apfl": 10.0, "first order": 10.0}


@pytest.mark.parametrize(
    ("key", "value"), [("proximity", -1.0), ("inner_steps", 0), ("outer_lr", 0.0), ("server_rate", 0.0), ("weighting", "rows")]
)
def test_options_that_cannot_be_are_refused_by_name(key, value):
    with pytest.raises(FedtierError, match=key):
        pfedme(PROBLEM, **{key: value})
