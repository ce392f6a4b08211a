"""FedMac: pFedMe's loop on a problem of its own."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import fedmac, projected_sgd

from .points import CLIENTS, PROBLEM, START, A, B, Played, gradient, mean_move, moves, replies, same
from .test_pfedme import ETA, K, at_client

C, LAM, G, G_W, RHO, RIDGE, BETA = 0.2, 0.6, 0.3, 0.2, 0.25, 0.1, 1.5
LOCAL = projected_sgd(f"inverse({C})")
SPARSE = {"proximity": LAM, "sparsity": G, "shared_sparsity": G_W, "width": RHO, "ridge": RIDGE}


def pull(i, theta, w):
    return gradient(i, theta) - LAM * w + RIDGE * theta + G * np.tanh(theta / RHO)


@pytest.mark.known_answer("fedmac")
@pytest.mark.slow
def test_fedmac_descends_on_the_correlated_sparse_problem():
    found = Played(fedmac(PROBLEM, **SPARSE, inner_steps=K, outer_lr=ETA, server_rate=BETA, local=LOCAL))
    x, thetas = START, np.tile(START, (CLIENTS, 1))
    for round in replies(found.plan):
        ends = {}
        for i, h in round:
            w = x
            for t in range(h):
                for _ in range(K):
                    thetas[i] = thetas[i] - C / (t + 1) * pull(i, thetas[i], w)
                w = w - ETA * (LAM * (w - thetas[i]) + G_W * np.tanh(w / RHO))
            ends[i] = w - x
        x = x + BETA * mean_move(round, found.weights, ends)
    same(found.x, x)
    same(found.clients.theta, thetas)
    assert np.abs(x - START).max() > 0.1
    for new in (False, True):
        personal = x if new else thetas[1]
        for t in range(K * 2):
            personal = personal - C / (t + 1) * pull(1, personal, x)
        same(found.personal(1, 2, new), personal)


@pytest.mark.slow
@pytest.mark.known_answer("fedmac")
def test_fedmac_with_exact_inner_solves_sends_the_gradient_of_the_least_value():
    """theta_i(w) by Newton's method; a step of w then is -eta times the derivative of the least value, by differences."""

    def theta_at(w):
        theta = np.zeros((CLIENTS, 3))
        for _ in range(60):
            slope = A[:, None] * (theta - B) - LAM * w + RIDGE * theta + G * np.tanh(theta / RHO)
            theta = theta - slope / (A[:, None] + RIDGE + G / RHO)  # the largest curvature there is: never too far
        for _ in range(20):
            slope = A[:, None] * (theta - B) - LAM * w + RIDGE * theta + G * np.tanh(theta / RHO)
            theta = theta - slope / (A[:, None] + RIDGE + G / RHO / np.cosh(theta / RHO) ** 2)
        return theta

    def value(w):
        """[m, n]: what client i pays for each coordinate of w."""
        theta = theta_at(w)
        h = (
            0.5 * A[:, None] * (theta - B) ** 2
            - LAM * theta * w
            + 0.5 * RIDGE * theta**2
            + G * RHO * np.log(np.cosh(theta / RHO))
        )
        return h + 0.5 * LAM * w**2 + G_W * RHO * np.log(np.cosh(w / RHO))

    w = 0.3 * START
    method = fedmac(PROBLEM, **SPARSE, inner_steps=400, outer_lr=ETA, local=projected_sgd(0.2))
    clients, sent = moves(method, w, 1)
    same(clients.theta, theta_at(w), 1e-8)
    np.testing.assert_allclose(sent, -ETA * (value(w + 1e-5) - value(w - 1e-5)) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.known_answer("fedmac")
def test_fedmac_without_sparsity_and_with_a_ridge_of_lambda_is_pfedme():
    smooth = {"proximity": LAM, "sparsity": 0.0, "shared_sparsity": 0.0, "ridge": LAM}
    clients, sent = moves(fedmac(PROBLEM, **smooth, inner_steps=K, outer_lr=ETA, local=LOCAL), START, 4)
    for i in range(CLIENTS):
        w, theta = at_client(i, START, START, 4, LAM)
        same(clients.theta[i], theta)
        same(sent[i], w - START)


@pytest.mark.parametrize(("key", "value"), [("sparsity", -1.0), ("shared_sparsity", -1.0), ("width", 0.0), ("ridge", -1.0)])
def test_options_that_cannot_be_are_refused_by_name(key, value):
    with pytest.raises(FedtierError, match=key):
        fedmac(PROBLEM, **{key: value})
