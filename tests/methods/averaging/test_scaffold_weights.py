"""SCAFFOLD by rows: x and c are means in which a client weighs as many times as it has rows."""

import numpy as np
import pytest

from fedtier.methods import projected_sgd, scaffold

from .quadratics import CLIENTS, START, C, bowls, descend, everyone, mean, play, replies, same

PLAN = everyone(6, 4)


def by_hand(weights):
    (a, b), x, c, own = bowls(), START, np.zeros_like(START), np.zeros((CLIENTS, len(START)))
    path = sum(C / (t + 1.0) for t in range(4))
    for round in replies(PLAN):
        ys = [descend(x, a[i], b[i], h, also=c - own[i]) for i, h in round]
        own = np.stack([own[i] - c + (x - y) / path for i, y in enumerate(ys)])
        x, c = mean(ys, weights), mean(own, weights)
    return x


@pytest.mark.slow
def test_scaffold_by_rows_is_the_weighted_mean_of_models_and_of_controls():
    local = projected_sgd("inverse(0.3)", batch=2)
    found, _, w = play(scaffold, PLAN, local=local, weighting="data")
    same(found, by_hand(w))
    alike, _, _ = play(scaffold, PLAN, local=local)
    same(alike, by_hand(np.ones(CLIENTS)))
    assert np.abs(found - alike).max() > 1e-3
