"""Whole rounds of the robust aggregations, with unequal H, stragglers and lost replies, against plain NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import make_plan
from fedtier.methods import make, rfa, trimmed_mean
from fedtier.problem import supervised

from ..test_known_answers import CLIENTS, START, C, end, points_apart, replies
from .test_combine import weiszfeld

ROUNDS = 6


def loss(x, rows):
    return 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1))


@functools.cache
def plan():
    taus = np.linspace(0.5, 1.5, CLIENTS) * 2.0
    drawn = make_plan(
        np.random.default_rng(4), clients=CLIENTS, rounds=ROUNDS, participation=1.0, tau=taus, stragglers=0.1, dropouts=0.2
    )
    assert (drawn.steps == 0).any() and {3, 4, 5} <= {*drawn.arrived.sum(axis=1).tolist()}
    return drawn


def play(name, options):
    """(the global model after the rounds, the clients' points, their weights)."""
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = make(name, supervised(loss), {"client_lr": f"inverse({C})"} | options)
        engine = compiled(method, capacity=ROUNDS)
        state = engine.init(jnp.asarray(START), federation)
        state, _ = engine.advance(state, federation, plan(), keys.root(0), 0, ROUNDS)
        return np.asarray(method.global_model(state.server)), b, np.asarray(federation.spec.weight)


def in_numpy(b, weights, combine):
    x = START
    for round in replies(plan()):
        if round:
            moves = np.stack([end(x, x, b[i], h) - x for i, h in round])
            x = x + combine(moves, weights[[i for i, _ in round]])
    assert np.abs(x - START).max() > 0.1
    return x


def trimmed(moves, _):
    """One of three to five replies is cut off at either end, which is a fifth rounded up; none of two."""
    cut = 1 if len(moves) > 2 else 0
    return np.sort(moves, axis=0)[cut : len(moves) - cut].mean(axis=0)


@pytest.mark.parametrize(
    ("name", "options", "combine"),
    [
        ("coordinate_median", {}, lambda moves, _: np.median(moves, axis=0)),
        ("trimmed_mean", {"trim": 0.2}, trimmed),
        ("rfa", {"tolerance": 1e-13, "iterations": 3000, "nu": 1e-12}, weiszfeld),
        (
            "rfa",
            {"tolerance": 1e-13, "iterations": 3000, "nu": 1e-12, "weighting": "uniform"},
            lambda moves, weights: weiszfeld(moves, np.ones(len(moves))),
        ),
    ],
    ids=["median", "trimmed", "rfa by rows", "rfa uniform"],
)
@pytest.mark.slow
def test_rounds_with_stragglers_and_lost_replies_are_those_of_plain_numpy(name, options, combine):
    found, b, weights = play(name, options)
    np.testing.assert_allclose(found, in_numpy(b, weights, combine), rtol=0, atol=2e-10)


@pytest.mark.slow
@pytest.mark.checked
def test_a_trim_of_0_is_fedavg_with_uniform_weights():
    np.testing.assert_allclose(
        play("trimmed_mean", {"trim": 0.0})[0], play("fedavg", {"weighting": "uniform"})[0], rtol=1e-13, atol=0
    )


@pytest.mark.parametrize(
    ("factory", "options", "name"),
    [
        (trimmed_mean, {"trim": 0.5}, "trim"),
        (trimmed_mean, {"trim": -0.1}, "trim"),
        (trimmed_mean, {"trim": float("nan")}, "trim"),
        (rfa, {"nu": 0.0}, "nu"),
        (rfa, {"tolerance": 0.0}, "tolerance"),
        (rfa, {"iterations": 0}, "iterations"),
        (rfa, {"weighting": "rows"}, "weighting"),
    ],
)
def test_impossible_options_are_refused_by_name(factory, options, name):
    with pytest.raises(FedtierError, match=f"^{name} = "):
        factory(supervised(loss), **options)
