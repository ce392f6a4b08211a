"""Momentum and weight decay at the client: of every method of the family, against the plain loop and torch's definition."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import fedavg, fedprox, make, projected_sgd, scaffold
from fedtier.problem import Spec

from .quadratics import CLIENTS, PLAN, PROBLEM, START, N, bowls, mean, play, replies, same
from .quadratics import fedavg as averaged

A, B = bowls()
HEAVY = projected_sgd("inverse(0.3)", momentum=0.8, weight_decay=0.05)
SPEC = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(()))


@pytest.mark.slow
def test_fedavg_and_fedprox_with_momentum_and_weight_decay_are_the_average_of_the_plain_loops():
    for factory, mu, more in ((fedavg, 0.0, {}), (fedprox, 0.7, {"proximity": 0.7})):
        _, state, w = play(factory, local=HEAVY, **more)
        same(state.server.x, averaged(w, mu=mu, rho=0.8, decay=0.05))


@pytest.mark.slow
def test_the_control_of_scaffold_stays_a_mean_of_gradients_with_momentum():
    """The gradient of step t acts in all steps k >= t, with rho^(k - t) of the size of step k."""
    _, state, _ = play(scaffold, local=HEAVY)
    x, c, own = START, np.zeros(N), np.zeros((CLIENTS, N))
    for round in replies():
        ends, change = [], {}
        for i, h in round:
            y, m, seen = x, np.zeros(N), []
            for t in range(h):
                seen.append(A[i] * (y - B[i]) + 0.05 * y)
                m = 0.8 * m + seen[-1] + c - own[i]
                y = y - 0.3 / (t + 1) * m
            weights = [sum(0.8 ** (k - t) * 0.3 / (k + 1) for k in range(t, h)) for t in range(h)]
            ends.append(y)
            change[i] = mean(seen, weights) - own[i] if h else np.zeros(N)
        x = x + sum(y - x for y in ends) / max(1, len(round))
        c = c + sum(change.values()) / CLIENTS
        for i, delta in change.items():
            own[i] = own[i] + delta
    same(state.server.x, x)
    np.testing.assert_allclose(state.clients.c, own, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_the_momentum_is_forgotten_between_rounds():
    one = PLAN._replace(steps=np.minimum(PLAN.steps, 1))
    x, _, w = play(fedavg, one, local=projected_sgd("inverse(0.3)", momentum=0.9))
    same(x, averaged(w, one))


@pytest.mark.parametrize(
    ("steps", "rho", "mu", "size", "wanted"),
    [
        (2, 0.9, 0.0, 1.0, 2.9),
        (7, 0.9, 0.0, 1.0, (7 - 0.9 * (1 - 0.9**7) / 0.1) / 0.1),  # 23.0467...
        (4, 0.0, 0.03, 1.0, 3.823573),
        (4, 0.0, 0.03, 0.5, (1 - (1 - 0.015) ** 4) / 0.03),
        (5, 0.0, 0.0, 0.1, 0.5),
        (0, 0.9, 0.03, 1.0, 0.0),
    ],
)
def test_the_path_is_what_the_published_formulas_say(steps, rho, mu, size, wanted):
    local = projected_sgd(size, momentum=rho)
    assert float(local.path(SPEC, steps, mu)) == pytest.approx(wanted, rel=1e-6)


def test_the_path_scales_with_the_clients_own_step():
    local, half = projected_sgd("inverse(0.3)", momentum=0.8), SPEC._replace(step_scale=jnp.asarray(0.5))
    assert float(local.path(half, 6)) == pytest.approx(0.5 * float(local.path(SPEC, 6)), rel=1e-6)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "fednova"])
def test_momentum_and_weight_decay_are_keys_and_bad_ones_are_refused(name):
    make(name, PROBLEM, {"momentum": 0.9, "weight_decay": 5e-4})
    for key, value in (("momentum", 1.0), ("momentum", -0.1), ("weight_decay", -1e-4), ("weight_decay", float("inf"))):
        with pytest.raises(FedtierError, match=key):
            make(name, PROBLEM, {key: value})
