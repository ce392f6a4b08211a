"""Weight decay at the server and at the clients of two levels: what it does to known answers, and which values are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import make, projected_sgd, server_only
from fedtier.methods.descent import descent
from fedtier.problem.closed_forms import two_level_quadratic

from .averaging.quadratics import PROBLEM
from .federations import quadratic
from .test_zo_hfl import bumpy_free_plan, play

W, LR = 0.5, 0.1


def server_after(options, rounds=4):
    """x of the server alone from 2 on f1 = 1/2 |x|^2, by flat keys or by a part."""
    federation, _ = quadratic(noise=0.0)
    problem = two_level_quadratic()._replace(f1=lambda x, rows: 0.5 * jnp.sum(x**2))
    method = server_only(problem, server=options) if not isinstance(options, dict) else make("server_only", problem, options)
    return np.asarray(play(method, federation, bumpy_free_plan(rounds, 4, steps=1), jnp.full(6, 2.0), rounds).server.x)


def test_plain_steps_of_the_server_shrink_by_weight_decay():
    found = server_after({"server_lr": LR, "server_weight_decay": W})
    np.testing.assert_allclose(found, 2.0 * (1 - LR * (1 + W)) ** 4, rtol=1e-6)


def test_with_momentum_the_decay_is_a_part_of_the_gradient():
    x, m = 2.0, 0.0
    for _ in range(4):
        m = 0.9 * m + x + W * x
        x -= LR * m
    np.testing.assert_allclose(
        server_after({"server_step": "momentum", "server_lr": LR, "server_weight_decay": W}), x, rtol=1e-5
    )


def test_with_adam_it_is_adamw():
    wanted = server_after(descent(optax.adamw(LR, weight_decay=W)))
    found = server_after({"server_step": "adam", "server_lr": LR, "server_weight_decay": W})
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.all(np.abs(found - server_after({"server_step": "adam", "server_lr": LR})) > 0.01)


def test_it_is_a_part_of_the_lower_level_so_that_what_is_derived_from_h_knows_of_it():
    """h = q/2 |y - b|^2 + mu/2 |y - x|^2 + w/2 |y|^2 has d y/d x = mu/(q + mu + w)."""
    problem = two_level_quadratic(proximity=2.0)
    changed, solver = projected_sgd(0.1, weight_decay=W).with_decay_in(problem)
    federation, _ = quadratic(noise=0.0)
    rows, spec = jax.tree.map(lambda a: a[:1], federation.arrays), jax.tree.map(lambda a: a[0], federation.spec)
    x, y = jnp.full(6, 0.3), jnp.full(6, -1.2)
    curved, plain = (jax.hessian(one.h, argnums=1)(x, y, rows, spec) for one in (changed, problem))
    np.testing.assert_allclose(curved - plain, W * np.eye(6), atol=1e-6)
    np.testing.assert_allclose(
        jax.grad(changed.h, argnums=1)(x, y, rows, spec) - jax.grad(problem.h, argnums=1)(x, y, rows, spec), W * y, rtol=1e-5
    )
    assert not solver.decays and changed.f2 is problem.f2
    assert projected_sgd(0.1).with_decay_in(problem)[0] is problem


@pytest.mark.parametrize("name", ["zo_hfl", "server_only", "local_only", "ditto"])
def test_bad_values_are_refused_by_name(name):
    served = ("server_weight_decay",) if name in ("zo_hfl", "server_only") else ()
    own = () if name == "server_only" else ("weight_decay", "momentum")
    for key in (*served, *own):
        make(name, PROBLEM, {key: 0.01})
        for value in (-0.1, float("inf"), float("nan")):
            with pytest.raises(FedtierError, match=key):
                make(name, PROBLEM, {key: value})
