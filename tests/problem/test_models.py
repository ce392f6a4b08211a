"""Models: shapes, starts, and parameters that are arrays and nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.problem import (
    Model,
    Rows,
    cnn,
    cross_entropy,
    from_equinox,
    huber_error,
    linear,
    logistic,
    mlp,
    scaled,
    softmax,
    squared_error,
    supervised,
)  # fmt: skip

KEY = keys.root(0)
MODELS = {
    "softmax": softmax(12, 3),
    "softmax, no bias": softmax(12, 3, bias=False),
    "mlp": mlp(12, 3, hidden=5, depth=2),
    "mlp, no bias": mlp(12, 3, hidden=5, depth=2, bias=False),
    "cnn": cnn(3, shape=(1, 9, 8)),
    "cnn, no bias": cnn(3, shape=(1, 9, 8), bias=False),
}
PARAMETERS = {name: jax.jit(model.init)(KEY) for name, model in MODELS.items()}
FEATURES = {name: 72 if name.startswith("cnn") else 12 for name in MODELS}
COUNTS = {
    "softmax": 12 * 3 + 3,
    "softmax, no bias": 12 * 3,
    "mlp": (12 * 5 + 5) + (5 * 5 + 5) + (5 * 3 + 3),
    "mlp, no bias": 12 * 5 + 5 * 5 + 5 * 3,
    "cnn, no bias": 9 * 16 + 9 * 16 * 32 + 9 * 32 * 64 + 64 * 1 * 1 * 3,
    "cnn": (9 * 16 + 16) + (9 * 16 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 1 * 1 * 3 + 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.checked
def test_a_batch_of_flat_inputs_gives_a_row_of_logits_each(name):
    model, inputs = MODELS[name], jnp.ones((7, FEATURES[name]))
    logits = model.apply(PARAMETERS[name], inputs)
    assert logits.shape == (7, 3) and bool(jnp.all(jnp.isfinite(logits)))


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_float_arrays_of_the_known_number(name):
    leaves = jax.tree.leaves(PARAMETERS[name])
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in leaves)
    assert sum(leaf.size for leaf in leaves) == COUNTS[name]


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_the_key_decides_the_first_parameters(name):
    init = jax.jit(MODELS[name].init)
    one, again, other = init(KEY), init(KEY), init(keys.root(1))
    assert eqx.tree_equal(one, again) and not eqx.tree_equal(one, other)


def test_softmax_starts_at_zero_where_every_class_is_equally_likely():
    model = softmax(12, 3)
    x = model.init(KEY)
    np.testing.assert_array_equal(x.weight, np.zeros((3, 12)))
    np.testing.assert_array_equal(x.bias, np.zeros(3))
    rows = Rows(jnp.ones((4, 12)), jnp.array([0, 1, 2, 0]))
    assert cross_entropy(model)(x, rows) == pytest.approx(np.log(3), rel=1e-6)


@pytest.mark.slow
def test_softmax_and_its_loss_match_numpy():
    rng = np.random.default_rng(0)
    weight, inputs, labels = rng.standard_normal((3, 12)), rng.standard_normal((5, 12)), np.array([0, 2, 1, 1, 0])
    bias = rng.standard_normal(3)
    logits = inputs @ weight.T + bias
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), labels])
    model = softmax(12, 3)
    x = type(model.init(KEY))(jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32))
    loss = cross_entropy(model)
    rows = Rows(jnp.asarray(inputs, jnp.float32), jnp.asarray(labels))
    assert loss(x, rows) == pytest.approx(expected, rel=1e-5)
    y = type(x)(x.weight + 2.0, x.bias)
    h = supervised(loss, proximity=0.5).h
    assert h(x, y, rows, ()) == pytest.approx(float(loss(y, rows)) + 0.5 * 0.5 * 36 * 4, rel=1e-5)


@pytest.mark.slow
def test_without_inputs_only_the_intercept_tells_the_classes_apart():
    """Rows that are all zero: the best softmax regression says the share of each class, which needs an intercept."""
    labels = jnp.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])
    rows, model = Rows(jnp.zeros((10, 4)), labels), softmax(4, 3)
    gradient = jax.grad(cross_entropy(model))(model.init(KEY), rows)
    np.testing.assert_allclose(gradient.bias, np.array([1 / 3 - 0.6, 1 / 3 - 0.3, 1 / 3 - 0.1]), rtol=1e-6)
    without = softmax(4, 3, bias=False)
    assert not np.any(jax.grad(cross_entropy(without))(without.init(KEY), rows).weight)


def test_squared_and_huber_errors_match_numpy():
    rng = np.random.default_rng(0)
    weight, bias, inputs, labels = (
        rng.normal(size=(1, 5)),
        rng.normal(size=1),
        rng.normal(size=(40, 5)),
        3 * rng.normal(size=40),
    )
    model = linear(5)
    x = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), type(model.init(KEY))(weight, bias))
    rows = Rows(jnp.asarray(inputs, jnp.float32), jnp.asarray(labels, jnp.float32))
    r = inputs @ weight[0] + bias[0] - labels
    assert squared_error(model)(x, rows) == pytest.approx(np.mean(r**2) / 2, rel=1e-5)
    expected = np.where(np.abs(r) <= 0.7, r**2 / 2, 0.7 * (np.abs(r) - 0.35))
    assert huber_error(model, 0.7)(x, rows) == pytest.approx(np.mean(expected), rel=1e-5)
    assert (np.abs(r) > 0.7).any() and (np.abs(r) < 0.7).any()


@pytest.mark.parametrize("make", [lambda: (softmax(4, 3), cross_entropy), lambda: (linear(4), squared_error)])
@pytest.mark.slow
def test_a_row_of_weight_two_counts_like_two_rows(make):
    model, loss = make()
    rng = np.random.default_rng(1)
    inputs, labels = rng.normal(size=(3, 4)).astype(np.float32), np.array([0, 2, 1], np.int32)
    x = jax.tree.map(lambda a: a + jnp.asarray(rng.normal(size=a.shape), a.dtype), model.init(KEY))
    twice = Rows(jnp.asarray(inputs[[0, 0, 1, 2]]), jnp.asarray(labels[[0, 0, 1, 2]]))
    weighted = Rows(jnp.asarray(inputs), jnp.asarray(labels), jnp.asarray([1.5, 0.75, 0.75]))  # 2 : 1 : 1, mean 1
    assert loss(model)(x, weighted) == pytest.approx(float(loss(model)(x, twice)), rel=1e-6)


def test_a_scaled_model_takes_stored_bytes():
    rows, model = np.arange(12, dtype=np.uint8).reshape(3, 4), softmax(4, 2, bias=False)
    x = jax.tree.map(lambda a: a + jnp.arange(8.0).reshape(2, 4), model.init(None))
    expected = model.apply(x, (rows.astype(np.float32) - 5.0) * 0.25)
    np.testing.assert_allclose(scaled(model, 5.0, 0.25).apply(x, jnp.asarray(rows)), expected, rtol=1e-6)


@pytest.mark.slow
def test_the_cnn_takes_images_and_flat_rows_alike():
    model = MODELS["cnn"]
    x, images = PARAMETERS["cnn"], jax.random.normal(KEY, (7, 1, 9, 8))
    np.testing.assert_array_equal(model.apply(x, images), model.apply(x, images.reshape(7, -1)))


def as_xla_computes_it(x, images):
    h = images
    for kernel, bias in zip(x.kernels, x.biases, strict=True):
        weight = kernel.reshape(3, 3, h.shape[1], -1)
        h = jax.lax.conv_general_dilated(h, weight, (1, 1), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW"))
        h = jax.nn.relu(h + bias[None, :, None, None])
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jnp.moveaxis(h, 1, -1).reshape(len(images), -1) @ x.weight.T + x.bias[None]


@pytest.mark.slow
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.checked
def test_the_cnn_and_its_slope_are_convolutions_relu_and_pooling_as_xla_computes_them(flat):
    model, images = cnn(5, (3, 10, 9), widths=(4, 6)), jax.random.normal(KEY, (2, 3, 10, 9))
    if flat:  # in an even area all four of a square are the largest: the first is chosen
        images = images.at[:, :, :6, :5].set(0.5)
    x = jax.tree.map(lambda a: a + 0.1, model.init(jax.random.key(3)))
    np.testing.assert_allclose(model.apply(x, images), as_xla_computes_it(x, images), rtol=2e-5, atol=2e-5)
    ours, wanted = (jax.grad(lambda x, f=f: jnp.sum(jnp.sin(f(x, images))))(x) for f in (model.apply, as_xla_computes_it))
    for mine, xlas in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, xlas, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.checked
def test_the_cnn_has_second_derivatives():
    """Forward over reverse, as the exact hypergradient takes them."""
    model, images = cnn(3, (1, 8, 8), widths=(3, 4)), jax.random.normal(KEY, (5, 1, 8, 8))
    x = model.init(jax.random.key(3))

    def curved(apply):
        slope = jax.grad(lambda x: jnp.sum(jnp.sin(apply(x, images))))
        return jax.jvp(slope, (x,), (jax.tree.map(jnp.ones_like, x),))[1]

    for mine, xlas in zip(*map(jax.tree.leaves, map(curved, (model.apply, as_xla_computes_it))), strict=True):
        np.testing.assert_allclose(mine, xlas, rtol=1e-4, atol=1e-3)


def test_any_equinox_module_is_a_model():
    model = from_equinox("linear", lambda key: eqx.nn.Linear(4, 2, key=key))
    x = model.init(KEY)
    inputs = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(model.apply(x, inputs), inputs @ np.asarray(x.weight).T + np.asarray(x.bias), rtol=1e-5)


def test_a_pair_of_functions_is_a_model():
    model = Model("mine", init=lambda key: {"w": jnp.ones((2, 3))}, apply=lambda x, inputs: inputs @ x["w"].T)
    rows = Rows(jnp.ones((4, 3)), jnp.zeros(4, jnp.int32))
    assert cross_entropy(model)(model.init(KEY), rows) == pytest.approx(np.log(2), rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: softmax(0, 3),
        lambda: softmax(4, 1),
        lambda: mlp(4, 2, hidden=0),
        lambda: mlp(4, 2, depth=0),
        lambda: cnn(0),
        lambda: mlp(4, 0),
        lambda: linear(4, 0),
        lambda: cnn(3, shape=(3, 2, 32)),
        lambda: cnn(3, shape=(0, 32, 32)),
    ],
)
def test_impossible_models_are_refused(make):
    with pytest.raises(FedtierError):
        make()


@pytest.mark.slow
def test_logistic_regression_has_one_logit_and_the_binary_cross_entropy():
    model = logistic(3)
    x = jax.tree.map(jnp.asarray, type(model.init(KEY))(np.asarray([[1.0, -2.0, 0.5]]), np.asarray([0.25])))
    rows = Rows(np.asarray([[1.0, 1.0, 2.0], [0.0, -1.0, 4.0]], np.float32), np.asarray([1, 0], np.int32))
    z = rows.inputs @ np.asarray([1.0, -2.0, 0.5]) + 0.25
    np.testing.assert_allclose(model.apply(x, rows.inputs), np.stack([np.zeros(2), z], axis=1), rtol=1e-6)
    binary = np.mean(np.log1p(np.exp(-z)) * rows.labels + np.log1p(np.exp(z)) * (1 - rows.labels))
    np.testing.assert_allclose(cross_entropy(model)(x, rows), binary, rtol=1e-6)


@pytest.mark.slow
def test_logistic_regression_starts_uniform_within_the_root_of_its_features():
    """Of U(-b, b): mean 0, variance b^2/3; b = 1/sqrt(13)."""
    drawn = jax.vmap(logistic(13).init)(jax.random.split(KEY, 4000))
    numbers, bound = np.concatenate([drawn.weight[:, 0], drawn.bias], axis=1), 13**-0.5
    assert np.abs(numbers).max() <= bound and np.abs(numbers).max() > 0.99 * bound
    assert abs(numbers.mean()) < 4 * bound / np.sqrt(3 * numbers.size)
    np.testing.assert_allclose(numbers.var(), bound**2 / 3, rtol=0.03)
    assert logistic(13, bias=False).init(KEY).bias is None
