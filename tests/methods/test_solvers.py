"""The loop that all methods share: what is drawn ahead is what would have been drawn one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.federation import View, sample
from fedtier.methods import solvers
from fedtier.methods.solvers import AHEAD, STRETCH, sgd


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 1, STRETCH - 1, STRETCH + 1, AHEAD - 1, AHEAD, AHEAD + 1, 2 * AHEAD + 7])
@pytest.mark.parametrize(
    ("backend", "small", "momentum"), [("cpu", 0, 0.0), ("gpu", 0, 0.0), ("gpu", 100, 0.0), ("cpu", 0, 0.6), ("gpu", 100, 0.6)]
)
def test_sgd_is_the_plain_loop_over_addressed_minibatches(steps, backend, small, momentum, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)  # the form of the loop, on the machine there is
    monkeypatch.setattr(solvers, "SMALL", small)
    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    view = View(jnp.asarray(rows), jnp.asarray(np.random.default_rng(1).permutation(50)), jnp.asarray(10), jnp.asarray(25))
    key = keys.root(3)

    @jax.jit
    def found(steps):
        def gradient(y, batch):
            return y - jnp.mean(batch, axis=0)

        how = {"lr": lambda t: 0.5 / (t + 1.0), "batch": 4, "scale": 0.7, "momentum": momentum}
        return sgd(gradient, jnp.zeros(3), view, steps, key, **how)

    y, m = np.zeros(3), np.zeros(3)
    for t in range(steps):
        batch = np.asarray(sample(view, jax.random.fold_in(key, t), 4), float)
        m = momentum * m + y - batch.mean(axis=0)
        y = y - 0.7 * 0.5 / (t + 1.0) * m
    np.testing.assert_allclose(found(jnp.asarray(steps)), y, rtol=1e-5, atol=1e-6)
