"""kNN-Per: votes of the nearest rows against NumPy, and who chooses how much they count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import View
from fedtier.methods import knn_per, make
from fedtier.problem import Model, Rows, cross_entropy, softmax, supervised

# Features are the inputs, logits are x @ inputs.
NET = Model("plain", lambda key: jnp.zeros((3, 2)), lambda x, inputs: inputs @ x.T, lambda x, inputs: inputs)
PROBLEM = supervised(cross_entropy(NET))._replace(model=NET)
RNG = np.random.default_rng(4)


METHOD = make("knn_per", PROBLEM, {"neighbours": 5, "distance_scale": 0.3, "stored": 25})
PREDICT = jax.jit(lambda x, view, inputs: METHOD.predict(x, view)(inputs))
INPUTS = RNG.standard_normal((9, 2))


def window(rows, labels, start, size):
    """So many of 40 rows; those beyond what is given are 0."""
    data = np.zeros((40, 2)), np.zeros(40, np.int32)
    data[0][: len(rows)], data[1][: len(rows)] = rows, labels
    arrays = Rows(*(jnp.asarray(a) for a in data))
    return View(arrays, jnp.arange(40, dtype=jnp.int32), jnp.asarray(start), jnp.asarray(size))


def predicted(x, rows, labels, start, size):
    """The probabilities of INPUTS' classes."""
    with jax.enable_x64(True):
        return np.exp(PREDICT(jnp.asarray(x), window(rows, labels, start, size), jnp.asarray(INPUTS)))


def softmaxed(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def votes(rows, labels, inputs, k, s, without_self=False):
    out = np.zeros((len(inputs), 3))
    for i, u in enumerate(inputs):
        d = np.linalg.norm(rows - u, axis=1)
        if without_self:
            d[i] = np.inf
        for j in np.argsort(d, kind="stable")[:k]:
            out[i, labels[j]] += np.exp(-d[j] / s) if np.isfinite(d[j]) else 0.0
    return out / out.sum(axis=1, keepdims=True)


def reference(x, rows, labels, inputs, k, s):
    """(probabilities, lam) in plain NumPy."""
    near, shares = votes(rows, labels, rows, k, s, without_self=True), softmaxed(rows @ x.T)
    right = [np.sum(np.argmax(lam * near + (1 - lam) * shares, axis=1) == labels) for lam in np.arange(11) / 10]
    lam = np.argmax(right) / 10
    return lam * votes(rows, labels, inputs, k, s) + (1 - lam) * softmaxed(inputs @ x.T), lam


@pytest.mark.known_answer("knn_per")
@pytest.mark.parametrize(("start", "size"), [(8, 20), (5, 35)])
def test_predictions_mix_the_votes_of_the_nearest_rows_with_the_global_model(start, size):
    """The window is a part of the rows, and of these only so many are stored: the others have no say."""
    rng = np.random.default_rng(4)
    rows, x = rng.standard_normal((40, 2)), 0.7 * rng.standard_normal((3, 2))
    labels = (rows[:, 0] > 0).astype(np.int32) + (rows[:, 1] > 0.5)
    part = slice(start, start + min(size, 25))
    wanted, lam = reference(x, rows[part], labels[part], INPUTS, 5, 0.3)
    np.testing.assert_allclose(predicted(x, rows, labels, start, size), wanted, rtol=1e-8, atol=1e-11)
    assert 0 < lam <= 1


@pytest.mark.known_answer("knn_per")
def test_where_the_global_model_is_right_on_every_row_it_predicts_alone():
    rows, labels = np.asarray([[1, 0], [2, 0.1], [-1, 0], [-2, 0.1]]), [0, 0, 1, 1]
    x = np.asarray([[4.0, 0], [-4, 0], [0, -9]])
    np.testing.assert_allclose(predicted(x, rows, labels, 0, 4), softmaxed(INPUTS @ x.T), rtol=1e-8, atol=1e-11)


@pytest.mark.known_answer("knn_per")
def test_a_client_with_one_class_of_which_the_model_is_sure_that_it_is_another_predicts_its_own():
    """On rows [1, 0] the model gives class 2 hardly any chance; only with the votes alone is it right there."""
    rows, x = np.tile([1.0, 0.0], (8, 1)), np.asarray([[30.0, 0], [-30, 0], [-30, 0]])
    found = predicted(x, rows, [2] * 8, 0, 8)
    assert np.all(np.argmax(found[INPUTS[:, 0] > 0.1], axis=1) == 2) and (INPUTS[:, 0] > 0.1).any()


def test_rows_outside_the_clients_window_and_their_labels_have_no_say():
    rows, labels, x = RNG.standard_normal((40, 2)), RNG.integers(0, 3, 40), RNG.standard_normal((3, 2))
    before = predicted(x, rows, labels, 5, 15)
    rows[:5], labels[20:] = 0.0, 0
    np.testing.assert_array_equal(before, predicted(x, rows, labels, 5, 15))


@pytest.mark.parametrize("size", [0, 1])
def test_a_client_without_two_rows_predicts_by_the_global_model(size):
    rows, x = RNG.standard_normal((40, 2)), RNG.standard_normal((3, 2))
    np.testing.assert_allclose(predicted(x, rows, [2] * 40, 0, size), softmaxed(INPUTS @ x.T), rtol=1e-8, atol=1e-11)


def test_numbers_as_labels_and_models_without_features_are_refused():
    numbers = View(Rows(np.zeros((4, 2)), np.zeros(4)), np.arange(4), 0, 4)
    with pytest.raises(FedtierError, match="needs classes"):
        METHOD.predict(np.zeros((3, 2)), numbers)
    model = softmax(4, 2)
    with pytest.raises(FedtierError, match="knn_per needs a model with features"):
        knn_per(supervised(cross_entropy(model))._replace(model=model))


@pytest.mark.parametrize("bad", [{"neighbours": 0}, {"stored": 0}, {"distance_scale": 0.0}])
def test_knn_per_refuses_bad_options(bad):
    with pytest.raises(FedtierError, match=next(iter(bad))):
        knn_per(PROBLEM, **bad)
