"""FedExP: eta_g = max(1, sum p |D|^2 / (2 (|Dbar|^2 + epsilon))), and the mean of the last two models."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import fedexp, projected_sgd

from .quadratics import PROBLEM, START, bowls, closed, descend, mean, play, replies, same

A, B = bowls()


@pytest.mark.known_answer("fedexp")
@pytest.mark.slow
def test_fedexp_goes_further_the_more_the_moves_differ_and_reports_the_mean_of_the_last_two_models():
    found, state, w = play(fedexp, local=projected_sgd("inverse(0.3)"), epsilon=0.01)
    x = before = START
    rates = []
    for round in replies():
        if any(h for _, h in round):
            moves, weights = [descend(x, A[i], B[i], h) - x for i, h in round], [w[i] for i, _ in round]
            d, square = mean(moves, weights), mean([np.sum(move**2) for move in moves], weights)
            rates.append(max(1.0, square / (2 * (np.sum(d**2) + 0.01))))
            x, before = x + rates[-1] * d, x
    assert min(rates) == 1.0 and max(rates) > 1.05
    same(state.server.x, x)
    same(found, (x + before) / 2)


@pytest.mark.known_answer("fedexp")
@pytest.mark.parametrize(
    ("moves", "rate"), [(0.7 * np.eye(5), 2.5), (np.full((4, 3), 0.7), 1.0), (np.asarray([[0.3, -0.2]]), 1.0)]
)
@pytest.mark.slow
def test_the_rate_is_half_the_number_of_orthogonal_moves_and_1_for_equal_ones_or_one_alone(moves, rate):
    found = closed(fedexp(PROBLEM, epsilon=1e-15), np.zeros(moves.shape[1]), moves)
    np.testing.assert_allclose(found.x, rate * moves.mean(0), rtol=1e-10)


def test_an_epsilon_of_0_is_refused():
    with pytest.raises(FedtierError, match="epsilon"):
        fedexp(PROBLEM, epsilon=0.0)
