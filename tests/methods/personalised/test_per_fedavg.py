"""Per-FedAvg: the gradient after a step, the product with the Hessian, and the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.federation import Window, build, partition, sample
from fedtier.keys import Tag
from fedtier.methods import fine_tune, global_model, per_fedavg, projected_sgd
from fedtier.problem import Rows, supervised

from .points import CLIENTS, PROBLEM, START, A, B, Played, end, mean_move, moves, personal_of, replies, same

C, ALPHA = 0.2, 0.3
LOCAL, PERSONAL = projected_sgd(f"inverse({C})"), fine_tune(ALPHA)


def quartic(x, rows):
    """a/80 sum (x - b)^4: its Hessian depends on where one is."""
    return 0.0125 * jnp.mean(rows.labels * jnp.sum((x[None] - rows.inputs) ** 4, -1))


def slope(x, a, b):
    return 0.05 * a * (x - b) ** 3


def meta(y, first, second, third=None):
    """The published direction; each minibatch is (a, b) with one row or many."""
    g = np.mean(slope(y - ALPHA * np.mean(slope(y, *first), 0), *second), 0)
    return g if third is None else g - ALPHA * np.mean(0.15 * third[0] * (y - third[1]) ** 2, 0) * g


@pytest.mark.known_answer("per_fedavg")
@pytest.mark.slow
def test_per_fedavg_takes_the_gradient_after_a_step_through_that_step():
    found = Played(per_fedavg(supervised(quartic), local=LOCAL, personal=PERSONAL))
    x = START
    for round in replies(found.plan):
        ends = {}
        for i, h in round:
            y, one = x, (A[i], B[i][None])
            for t in range(h):
                y = y - C / (t + 1) * meta(y, one, one, one)
            ends[i] = y - x
        x = x + mean_move(round, found.weights, ends)
    same(found.x, x)
    assert np.abs(x - START).max() > 0.1


@pytest.mark.known_answer("per_fedavg")
@pytest.mark.parametrize(("first_order", "power"), [(False, 2), (True, 1)])
@pytest.mark.slow
def test_per_fedavg_on_quadratics_stands_still_at_its_closed_form(first_order, power):
    k = A * (1 - ALPHA * A) ** power
    _, sent = moves(per_fedavg(PROBLEM, first_order=first_order, local=LOCAL, personal=PERSONAL), k @ B / k.sum(), 1)
    np.testing.assert_allclose(sent.sum(0), 0.0, atol=1e-13)
    same(sent, -C * k[:, None] * (k @ B / k.sum() - B))


@pytest.mark.slow
@pytest.mark.known_answer("per_fedavg")
def test_per_fedavg_with_a_step_of_0_is_fedavg():
    _, sent = moves(per_fedavg(PROBLEM, local=LOCAL, personal=global_model()), START, 3)
    same(sent, [end(i, START, 3, C) - START for i in range(CLIENTS)])


@pytest.mark.slow
@pytest.mark.parametrize("first_order", [False, True])
def test_the_step_the_gradient_and_the_product_have_a_minibatch_each(first_order):
    rng, size = np.random.default_rng(1), 4
    rows = Rows(0.5 * rng.standard_normal((60, 3)), rng.uniform(0.5, 1.5, 60))
    data = build(rows, partition.natural(np.arange(60) % CLIENTS), clients=CLIENTS, rng=rng, test_share=0.0, server_share=0.0)
    method = per_fedavg(
        supervised(quartic), first_order=first_order, local=projected_sgd(C, batch=size), personal=PERSONAL, weighting="data"
    )
    _, sent = moves(method, START, 1, data)
    many = (2 if first_order else 3) * size
    for i, drawn in enumerate(drawn_first(data, many)):
        a, b = np.asarray(drawn.labels, float)[:, None], np.asarray(drawn.inputs, float)
        parts = [(a[k : k + size], b[k : k + size]) for k in range(0, many, size)]
        np.testing.assert_allclose(sent[i], -C * meta(START, *parts), rtol=1e-5)


def drawn_first(data, count):
    """The rows that each client draws for its first step."""
    draw = jax.jit(lambda train, key: sample(data.view(train), keys.at(key, Tag.SOLVE, 0), count))
    for i, window in enumerate(zip(*data.train, strict=True)):
        yield draw(Window(*window), keys.at(keys.root(0), 0, i + 1))


@pytest.mark.slow
def test_the_personal_model_is_x_after_steps_of_size_alpha():
    """Four gradients a local step, so that it has four steps for each of a round's."""
    method = per_fedavg(PROBLEM, local=LOCAL, personal=PERSONAL)
    same(personal_of(method, START, 1, 2), B[1] + (1 - ALPHA * A[1]) ** 8 * (START - B[1]))


@pytest.mark.parametrize(("key", "value"), [("personal", 0.1), ("first_order", 1), ("local", 0.1), ("weighting", "rows")])
def test_options_that_cannot_be_are_refused_by_name(key, value):
    with pytest.raises(FedtierError, match=key):
        per_fedavg(PROBLEM, **{key: value})
