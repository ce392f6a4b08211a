"""FedRZO where a minibatch is no chance: f1(y) = 1/2 |y - b_i|^2 and h_i(x, y) = f1(y) + mu/2 |x - y|^2."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.keys import Tag
from fedtier.methods import fedrzo, lower_level, make
from fedtier.problem import box, supervised

from ..reference import at
from ..test_known_answers import CLIENTS, MU, ROUNDS, START, N, bumpy_plan, points_apart, replies, same

C, ETA, PENALTY, UPPER = 0.03, 0.1, 0.8, 0.2
PLAN = bumpy_plan(ROUNDS, clients=CLIENTS)


def problem(**limits):
    loss = lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1))  # noqa: E731
    return supervised(loss, penalty=PENALTY, proximity=MU, **limits)


def played(given, **options):
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = make("fedrzo", given, {"client_lr": f"inverse({C})", "smoothing": ETA} | options)
        engine = compiled(method, capacity=ROUNDS)
        state = engine.init(jnp.asarray(START), federation)
        state, _ = engine.advance(state, federation, PLAN, keys.root(0), 0, ROUNDS)
        return np.asarray(method.global_model(state.server)), np.asarray(federation.spec.weight), b


def unit(key):
    with jax.enable_x64(True):
        draw = np.asarray(jax.random.normal(at(key, 0), (N,), np.float64))
    return draw / np.linalg.norm(draw)


def average(moves):
    return np.mean(moves, axis=0) if moves else 0.0


@pytest.mark.known_answer("fedrzo")
@pytest.mark.slow
def test_fedrzo_of_one_level_takes_one_sided_differences_and_is_pulled_back_into_its_set():
    found, _, b = played(problem(Y=box(-np.inf, UPPER)))
    x, outside = START, 0
    for r, round in enumerate(replies(PLAN)):
        moves = []
        for i, h in round:
            z = x
            for t in range(h):
                v = unit(at(keys.root(0), r, i + 1, Tag.DIRECTION, t))
                rise = 0.5 * np.sum((z + ETA * v - b[i]) ** 2) - 0.5 * np.sum((z - b[i]) ** 2)
                outside += np.any(z > UPPER)
                z = z - C / (t + 1) * (N / ETA * rise * v + (z - np.minimum(z, UPPER)) / ETA)
            moves.append(z - x)
        x = x + average(moves)
    same(found, x)
    assert outside > 10


@pytest.mark.known_answer("fedrzo")
def test_fedrzo_of_two_levels_solves_the_lower_level_twice_a_round():
    found, weights, b = played(problem(), form="bl")
    x = START
    for r, round in enumerate(replies(PLAN)):
        moves = []
        for i, h in round:
            v, z = unit(at(keys.root(0), r, i + 1, Tag.DIRECTION)), x
            ahead, here = (lower(point, b[i], h) for point in (x + ETA * v, x))
            for t in range(h):
                rise = upper(z + ETA * v, ahead, b[i], weights[i]) - upper(z, here, b[i], weights[i])
                z = z - C / (t + 1) * N / ETA * rise * v
            moves.append(z - x)
        x = x + average(moves)
    same(found, x)


def lower(x, b, steps):
    """H steps of Algorithm 2 from x."""
    y = x
    for t in range(steps):
        y = y - C / (t + 1) * (y - b + MU * (y - x))
    return y


def upper(z, y, b, weight):
    return 0.5 * np.sum((z - b) ** 2) + 0.5 * PENALTY * weight * np.sum((z - y) ** 2)


def test_the_personal_model_of_two_levels_is_the_solution_of_the_lower_level():
    assert make("fedrzo", problem(), {"form": "bl"}).lower_level
    assert make("fedrzo", problem(), {"form": "bl"}).solves == 3
    with pytest.raises(FedtierError, match="lower level"):
        fedrzo(problem(), personal=lower_level())


@pytest.mark.parametrize(("key", "value"), [("form", "two"), ("smoothing", 0.0), ("smoothing", -1.0)])
def test_what_makes_no_sense_is_refused(key, value):
    with pytest.raises(FedtierError, match=key):
        make("fedrzo", problem(), {key: value})
