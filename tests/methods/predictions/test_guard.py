"""A client chooses between what it was taught and what it has learnt alone, by rows that neither has seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.federation import Shown, View
from fedtier.methods.method import Turn
from fedtier.methods.predictions.codistil import codistil
from fedtier.methods.predictions.guard import Guarded
from fedtier.methods.predictions.learners import Learner, Said
from fedtier.methods.predictions.rules import Shared
from fedtier.problem import Model, Rows, Spec, cross_entropy, supervised

CLASSES, P, N = 3, 2, 8
NET = Model("bias", lambda key: jnp.zeros(CLASSES), lambda x, inputs: jnp.tile(x[:CLASSES], (inputs.shape[0], 1)))
PROBLEM = supervised(cross_entropy(NET))._replace(model=NET, outputs=CLASSES)
SPEC = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(()))
SURE = np.asarray([5.0, 0.0, 0.0], np.float32)  # a teacher who says class 0


def counting(state, lesson, view, spec, turn, key):
    """What it is taught, or, told nothing, how often its rows have each class; and how many rows it has seen."""
    inside = (view.index >= view.start) & (view.index < view.start + view.size)
    own = jnp.log(jnp.sum(inside[:, None] * jax.nn.one_hot(view.arrays.labels, CLASSES), axis=0) + 0.1)
    y = jnp.append(jnp.where(lesson.weight > 0, lesson.outputs[0], own), jnp.sum(inside))
    return y, Said(jnp.zeros((P, CLASSES)), jnp.ones(P, bool))


METHOD = codistil(PROBLEM, learner=Learner(lambda x, spec: jnp.zeros(CLASSES + 1), counting), public_rows=P, check=0.25)


@pytest.fixture(scope="module")
def both():
    """(the personal model, the state after a round) of a client with the first `size` of these rows, compiled once."""

    @jax.jit
    def one(labels, size, z):
        rows, shown = Rows(jnp.zeros((N, 1)), labels), Shown(jnp.zeros((P, 1)), jnp.ones(P, bool))
        view = View(rows, jnp.arange(N), jnp.asarray(0), size, shown)
        state, turn = METHOD.client_init(z, SPEC), Turn(jnp.asarray(3), jnp.asarray(0), jnp.asarray(1), keys.root(0))
        after, _ = METHOD.local(state, Shared(jnp.tile(z, (P, 1))), (), view, SPEC, turn)
        return METHOD.personal_model(state, z, view, SPEC, turn), after

    def of(labels, z, size=N):
        return one(jnp.asarray(np.resize(labels, N), jnp.int32), jnp.asarray(size, jnp.int32), jnp.asarray(z, jnp.float32))

    return of


@pytest.mark.parametrize(("z", "wanted"), [(SURE, SURE), (SURE[::-1], np.log([2.1, 6.1, 0.1]))])
def test_the_rows_kept_back_decide_and_the_model_then_learns_from_all(both, z, wanted):
    """Alone it thinks class 1 likely; the last two rows are of class 0, which only a teacher who says 0 knows."""
    np.testing.assert_allclose(np.asarray(both([1] * 6 + [0, 0], z)[0]), [*wanted, 8], rtol=1e-5)


def test_without_a_row_to_keep_back_a_client_learns_alone(both):
    np.testing.assert_allclose(np.asarray(both([0] * 8, SURE, size=2)[0]), [*np.log([2.1, 0.1, 0.1]), 2], rtol=1e-5)


def test_in_a_round_both_learn_from_the_rows_that_are_not_kept_back(both):
    state = both([1] * 6 + [0, 0], SURE)[1]
    assert isinstance(state, Guarded) and METHOD.solves == 2
    np.testing.assert_allclose(np.asarray(state.client.y), [*SURE, 6], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(state.alone), [*np.log([0.1, 6.1, 0.1]), 6], rtol=1e-5)


def test_a_share_that_is_none_and_a_method_without_a_choice_are_refused():
    with pytest.raises(FedtierError, match="check"):
        codistil(PROBLEM, check=1.5)
    settings = [
        "data.name=synthetic",
        "data.partition=iid",
        "method.name=feddf",
        "method.fusion=predictions",
        "run.personal_check=0.2",
    ]
    with pytest.raises(FedtierError, match="has no others to choose from"):
        assemble(configuration.load_config(None, settings))
