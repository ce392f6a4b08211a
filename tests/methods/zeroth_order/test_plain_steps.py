"""These methods make steps of their own: what a local solver has beyond a step size and a minibatch is refused or used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.methods import Opening, decomfl, fedrzo, projected_sgd, shrofbo, simfbo, turn_of, zoopfl
from fedtier.problem import supervised

from ..test_known_answers import START, points_apart

FACTORIES = [decomfl, fedrzo, zoopfl, simfbo, shrofbo]


def problem():
    return supervised(lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)))


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("extra", ["momentum", "weight_decay"])
def test_momentum_and_weight_decay_are_refused(factory, extra):
    if (factory, extra) == (decomfl, "momentum"):
        return  # DeComFL has a momentum: see test_decomfl.py
    with pytest.raises(FedtierError, match=extra):
        factory(problem(), local=projected_sgd(0.1)._replace(**{extra: 0.5}))


@pytest.mark.slow
@pytest.mark.parametrize("factory", [decomfl, fedrzo, zoopfl, simfbo])
def test_steps_see_augmented_rows(factory):
    """Rows that are moved by 1 lead to another reply, rows that stay to the same."""
    federation, _, _ = points_apart()
    window, spec = jax.tree.map(lambda a: a[0], (federation.train, federation.spec))
    view, turn = federation.view(window), turn_of(0, 0, 1, keys.root(0))
    opening = Opening(jnp.asarray(0), 5, view, keys.root(0))

    def reply(augment):
        method = factory(problem(), local=projected_sgd(0.1)._replace(augment=augment))

        def up(x):
            shared = method.broadcast(method.server_init(x), opening)
            return method.local(method.client_init(x, spec), shared, (), view, spec, turn)[1]

        return np.concatenate([np.ravel(a) for a in jax.tree.leaves(jax.jit(up)(jnp.asarray(START, jnp.float32)))])

    here = reply(None)
    same = reply(lambda rows, key: rows)
    moved = reply(lambda rows, key: rows._replace(inputs=rows.inputs + 1.0))
    np.testing.assert_array_equal(here, same)
    assert np.abs(here - moved).max() > 1e-3
