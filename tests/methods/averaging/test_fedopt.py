"""FedAvgM, FedAdagrad, FedAdam and FedYogi as published: no correction of a bias, v from tau^2."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import fedadagrad, fedadam, fedavgm, fedyogi, projected_sgd

from .quadratics import PROBLEM, START, N, bowls, closed, descend, mean, play, replies, same

A, B = bowls()
LOCAL = projected_sgd("inverse(0.3)")
ETA, BETA, SECOND, TAU = 0.2, 0.6, 0.7, 0.03


def moves(x, round, w):
    """FedAvg's mean move."""
    return mean([descend(x, A[i], B[i], h) - x for i, h in round], [w[i] for i, _ in round])


def played(factory, grow, *, eta=lambda r: ETA, **options):
    """(found, wanted) states (x, m, v) of an adaptive method whose v becomes grow(v, d^2)."""
    _, state, w = play(factory, local=LOCAL, server_momentum=BETA, adaptivity=TAU, **options)
    x, m, v = START, np.zeros(N), np.full(N, TAU**2)
    for r, round in enumerate(replies()):
        if any(h for _, h in round):
            d = moves(x, round, w)
            m, v = BETA * m + (1 - BETA) * d, grow(v, d**2)
            x = x + eta(r) * m / (np.sqrt(v) + TAU)
    return state.server, (x, m, v)


def all_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    same(found.x, wanted[0])


@pytest.mark.known_answer("fedavgm")
@pytest.mark.slow
def test_fedavgm_adds_the_mean_move_to_a_share_of_the_last_direction():
    _, state, w = play(fedavgm, local=LOCAL, server_momentum=BETA, server_lr="inverse_sqrt(0.5)")
    x, m = START, np.zeros(N)
    for r, round in enumerate(replies()):
        if any(h for _, h in round):
            m = BETA * m + moves(x, round, w)
            x = x + 0.5 / np.sqrt(r + 1) * m
    same(state.server.x, x)


@pytest.mark.known_answer("fedadam")
def test_fedadam_divides_by_the_root_of_a_fading_mean_of_squares_without_correcting_its_bias():
    all_same(*played(fedadam, lambda v, s: SECOND * v + (1 - SECOND) * s, server_lr=ETA, second_moment=SECOND))


@pytest.mark.known_answer("fedyogi")
@pytest.mark.slow
def test_fedyogi_moves_the_mean_square_by_the_square_of_the_move_up_or_down():
    def grow(v, s):
        return np.where(v > s, v - (1 - SECOND) * s, v + (1 - SECOND) * s)

    all_same(*played(fedyogi, grow, server_lr=ETA, second_moment=SECOND))


@pytest.mark.known_answer("fedadagrad")
@pytest.mark.slow
def test_fedadagrad_divides_by_the_root_of_the_sum_of_all_squares():
    all_same(*played(fedadagrad, lambda v, s: v + s, server_lr=ETA))


@pytest.mark.known_answer("fedadam", "fedyogi", "fedadagrad")
def test_the_first_step_of_each_is_its_closed_form():
    d, tau = np.asarray([0.3, -0.02, 0.5]), 1e-3
    firsts = {
        fedadam: 0.1 * d / (np.sqrt(0.01 * d**2 + 0.99 * tau**2) + tau),
        fedyogi: 0.1 * d / (np.sqrt(tau**2 + 0.01 * d**2) + tau),  # d^2 is above v = tau^2, which therefore grows
        fedadagrad: d / (np.sqrt(tau**2 + d**2) + tau),
    }
    for factory, wanted in firsts.items():
        found = closed(factory(PROBLEM, server_lr=0.5), START, [d + 0.1, d - 0.1])
        np.testing.assert_allclose(found.x, START + 0.5 * wanted, rtol=1e-10)


@pytest.mark.known_answer("fedavgm", "fedadam")
def test_without_moments_fedavgm_is_fedavg_and_so_is_fedadam_where_a_large_tau_is_also_the_step():
    moves = np.asarray([[0.3, -0.02, 0.5], [0.1, 0.4, -0.1]])
    plain = closed(fedavgm(PROBLEM, server_momentum=0.0), START, moves)
    np.testing.assert_allclose(plain.x, START + moves.mean(0), rtol=1e-12)
    adam = fedadam(PROBLEM, server_momentum=0.0, second_moment=0.0, adaptivity=1e8, server_lr=1e8)
    np.testing.assert_allclose(closed(adam, START, moves).x, START + moves.mean(0), rtol=1e-7)


@pytest.mark.parametrize("factory", [fedavgm, fedadagrad, fedadam, fedyogi])
def test_where_nobody_made_a_step_the_server_forgets_nothing(factory):
    method = factory(PROBLEM, server_momentum=0.5)
    once = closed(method, START, [np.ones(N)])
    again = closed(method._replace(server_init=lambda x: once), START, [np.zeros(N)], steps=0)
    true = closed(method._replace(server_init=lambda x: once), START, [np.zeros(N)], steps=1)
    for kept, before in zip(again, once, strict=True):
        np.testing.assert_array_equal(kept, before)
    assert np.abs(true.x - once.x).min() > 1e-3  # a mean of 0 that is one: the momentum goes on


@pytest.mark.parametrize("factory", [fedavgm, fedadagrad, fedadam, fedyogi])
def test_the_memory_starts_as_published_and_bad_options_are_refused(factory):
    server = factory(PROBLEM).server_init(jnp.ones(2))
    assert server.m.tolist() == [0, 0] and (factory is fedavgm or server.v.tolist() == pytest.approx([1e-6, 1e-6]))
    bad = {"server_lr": 0.0, "server_momentum": 1.0}
    bad |= {} if factory is fedavgm else {"adaptivity": 0.0}
    bad |= {"second_moment": 1.0} if factory in (fedadam, fedyogi) else {}
    for key, value in bad.items():
        with pytest.raises(FedtierError, match=key):
            factory(PROBLEM, **{key: value})
