"""Data made on the spot."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.datasets import curvatures, load
from fedtier.errors import FedtierError
from fedtier.problem.closed_forms import ClosedForm, QuadraticSpec, two_level_quadratic


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    one, two, three = (load("synthetic", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.inputs, two.inputs) and np.array_equal(one.labels, two.labels)
    assert not np.array_equal(one.inputs, three.inputs)


def test_synthetic_rows_lie_around_class_mean_plus_client_shift():
    data = load("synthetic", clients=50, rows=400, features=3, classes=4, spread=2.0)
    assert data.inputs.shape == (20_000, 3) and data.inputs.dtype == np.float32 and data.clients == 50
    design = np.concatenate([np.eye(4)[data.labels], np.eye(50)[data.owner]], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, data.inputs, rcond=None)
    residual = data.inputs - design @ coefficients
    assert abs(residual.std() - 1) < 0.02
    assert abs(coefficients[4:].std() - 2) < 0.4


def test_clients_without_spread_are_alike():
    data = load("synthetic", clients=20, rows=2000, features=2, classes=2, spread=0)
    means = np.array([data.inputs[(data.owner == i) & (data.labels == 0)].mean(axis=0) for i in range(20)])
    assert means.std(axis=0).max() < 0.08


@pytest.mark.slow
def test_a_million_clients_are_made_in_seconds():
    start = time.process_time()
    data = load("synthetic", clients=1_000_000, rows=2, features=4)
    assert time.process_time() - start < 30
    assert data.clients == 1_000_000 and data.rows == 2_000_000 and data.owner_names == ()


def test_impossible_sizes_are_refused():
    for options in ({"clients": 0}, {"rows": -1}, {"features": 0}, {"classes": 1}, {"spread": -1.0}, {"seed": -1}):
        (name,) = options
        with pytest.raises(FedtierError, match=f"^{name} = "):
            load("synthetic", **options)


@pytest.mark.slow
def test_quadratic_rows_and_curvatures_make_the_closed_form_s_problem():
    data = load("quadratic", clients=3, rows=5, features=4, seed=7)
    assert data.classes == 1 and not data.labels.any()
    rows, q = data.inputs.reshape(3, 5, 4), curvatures(3, 4, seed=7)
    problem = two_level_quadratic(penalty=2.0, proximity=0.5)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    closed = ClosedForm(rows.mean((0, 1)), rows.mean(1), q, np.ones(3), 2.0, 0.5)
    for i, y in enumerate(closed.solution(x)):
        slope = jax.grad(problem.h, argnums=1)(
            jnp.asarray(x), y, jnp.asarray(rows[i]), QuadraticSpec(1.0, np.inf, 1.0, jnp.asarray(q[i]))
        )
        np.testing.assert_allclose(slope, 0, atol=1e-5)


def test_curvatures_keep_to_their_ratio():
    q = curvatures(200, 5, ratio=9.0)
    assert q.dtype == np.float32 and 1 / 3 <= q.min() < 0.35 and 2.9 < q.max() <= 3
    assert np.array_equal(curvatures(2, 2, ratio=1.0), np.ones((2, 2)))
    with pytest.raises(FedtierError, match="ratio"):
        curvatures(2, 2, ratio=0.5)
