"""FedNova: x <- x + (sum_j p_j A_j) sum_i p_i (y_i - x)/A_i."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import fednova, projected_sgd

from .quadratics import CLIENTS, PROBLEM, START, bowls, descend, everyone, fedavg, mean, play, replies, same

A, B = bowls()


def path(steps, mu=0.0, rho=0.0):
    """How far a constant slope of -1 leads: the published |a_i|_1 with the step sizes in it, steps 0.3/(t + 1)."""
    return float(descend(np.zeros(1), 0.0, 0.0, steps, mu=mu, rho=rho, also=-1.0)[0])


@pytest.mark.known_answer("fednova")
@pytest.mark.parametrize(("rho", "mu"), [(0.0, 0.0), (0.8, 0.6)])
def test_fednova_divides_each_move_by_its_path_and_multiplies_by_the_mean_path(rho, mu):
    _, state, w = play(fednova, local=projected_sgd("inverse(0.3)", momentum=rho), proximity=mu)
    x = START
    for round in replies():
        moved = [(i, h) for i, h in round if h]
        if moved:
            weights, paths = [w[i] for i, _ in moved], [path(h, mu, rho) for _, h in moved]
            moves = [(descend(x, A[i], B[i], h, mu=mu, rho=rho) - x) / far for (i, h), far in zip(moved, paths, strict=True)]
            x = x + mean(paths, weights) * mean(moves, weights)
    same(state.server.x, x)


@pytest.mark.known_answer("fednova")
@pytest.mark.slow
def test_where_all_clients_make_the_same_steps_fednova_is_fedprox():
    plan = everyone(4, 3)
    x, _, w = play(fednova, plan, local=projected_sgd("inverse(0.3)", momentum=0.5), proximity=0.4)
    same(x, fedavg(w, plan, mu=0.4, rho=0.5))


@pytest.mark.known_answer("fednova")
@pytest.mark.slow
def test_the_fixed_point_on_quadratics_weighs_the_optima_by_what_one_step_of_each_client_forgets():
    """A client keeps (1 - eta a)^H of its distance from b: FedNova rests at sum k b/sum k with
    k_i = p_i (1 - (1 - eta a_i)^H_i)/H_i, FedAvg at the same without the division."""
    steps, eta = np.arange(1, CLIENTS + 1), 0.3
    _, state, w = play(fednova, everyone(400, steps), local=projected_sgd(eta))
    gone = w[:, None] * (1 - (1 - eta * A) ** steps[:, None])
    k = gone / steps[:, None]
    same(state.server.x, np.sum(k * B, 0) / np.sum(k, 0))
    assert np.abs(state.server.x - np.sum(gone * B, 0) / np.sum(gone, 0)).max() > 0.05


def test_a_proximity_below_0_is_refused():
    with pytest.raises(FedtierError, match="proximity"):
        fednova(PROBLEM, proximity=-1.0)
