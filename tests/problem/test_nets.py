"""The nets of published tables and the residual net: their sizes, their layers as XLA computes them, their features."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys, trees
from fedtier.errors import FedtierError
from fedtier.problem import (
    Rows,
    cnn,
    cross_entropy,
    halved,
    lenet,
    linear,
    mlp,
    pfl_cnn,
    residual,
    scaled,
    softmax,
    zo_cnn,
    zo_cnn_wide,
)
from fedtier.problem.models import stages

KEY = keys.root(0)
SMALL = {  # model, head, shape
    "mlp": (mlp(12, 3, hidden=5, depth=2), lambda x: (x.layers[-1].weight, x.layers[-1].bias), (12,)),
    "cnn": (cnn(3, (1, 8, 8), widths=(4, 6)), lambda x: (x.weight, x.bias), (1, 8, 8)),
    "lenet": (lenet(3, (1, 16, 18)), lambda x: x.head, (1, 16, 18)),
    "residual": (residual(3, (1, 7, 8), widths=(4, 8), groups=2), lambda x: x.head, (1, 7, 8)),
}


def size(model):
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0))))


def test_the_nets_of_published_tables_have_the_published_number_of_parameters():
    """LeNet: the layers of NIID-Bench's text counted by hand; PFLlib's: as published, 582,026."""
    assert size(lenet(10, (3, 32, 32))) == (75 * 6 + 6) + (150 * 16 + 16) + (400 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
    assert size(lenet(10, (1, 28, 28))) == (25 * 6 + 6) + (150 * 16 + 16) + (256 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
    assert size(pfl_cnn(10, (1, 28, 28))) == 582_026
    assert size(zo_cnn(10, (1, 28, 28))) == 28_938 and size(zo_cnn_wide(10, (1, 28, 28))) == 1_206_590


@pytest.mark.slow
def test_first_weights_and_biases_of_published_nets_lie_within_one_over_the_root_of_their_inputs():
    """PyTorch's law: deviation bound/sqrt(3); LeNet's layers have 25, 150, 256, 120 and 84 inputs."""
    x = jax.jit(lenet(10, (1, 28, 28)).init)(KEY)
    layers = [*zip(x.kernels, x.biases, strict=True), *((one.weight, one.bias) for one in (*x.hidden, x.head))]
    for (weight, bias), inputs in zip(layers, (25, 150, 256, 120, 84), strict=True):
        bound = inputs**-0.5
        assert np.abs(weight).max() <= bound and np.abs(bias).max() <= bound and np.abs(bias).max() > 0
        assert np.std(weight) == pytest.approx(bound / 3**0.5, rel=0.15)


def test_the_residual_net_has_the_parameters_of_its_layers():
    convolutions = 27 * 16 + 2 * 144 * 16 + (144 + 288) * 32 + (288 + 576) * 64 + 16 * 32 + 32 * 64
    norms, head = 2 * (16 + 2 * 16 + 2 * 32 + 2 * 64), 64 * 10 + 10
    assert size(residual(10, (3, 32, 32))) == convolutions + norms + head == 77_850
    assert size(residual(10, (3, 32, 32), bias=False)) == 77_840


def test_normalisation_and_head_are_found_by_name():
    names = trees.names(jax.eval_shape(residual(10).init, jax.random.key(0)))
    assert len([name for name in names if "norm" in name]) == 2 * (1 + 2 * 3)
    assert [name for name in names if name.startswith("head")] == ["head.weight", "head.bias"]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_outputs_are_the_dense_head_of_the_features(name):
    model, head, shape = SMALL[name]
    x = jax.tree.map(lambda a: np.asarray(a) + np.float32(0.1), jax.jit(model.init)(KEY))
    inputs = np.random.default_rng(0).standard_normal((5, *shape)).astype(np.float32)
    weight, bias = head(x)
    z, outputs = jax.jit(lambda x, inputs: (model.features(x, inputs), model.apply(x, inputs)))(x, inputs)
    np.testing.assert_allclose(np.asarray(z) @ weight.T + bias[None], outputs, rtol=1e-5, atol=1e-5)
    assert z.shape == (5, weight.shape[1]) and np.all(np.asarray(z) >= 0)


def test_linear_models_have_no_features_and_a_scaled_model_has_those_of_scaled_inputs():
    assert softmax(4, 3).features is None and linear(4).features is None and scaled(softmax(4, 3), 1.0, 2.0).features is None
    model = mlp(4, 2, hidden=3)
    x, rows = model.init(KEY), np.arange(8, dtype=np.uint8).reshape(2, 4)
    wanted = model.features(x, (rows.astype(np.float32) - 5.0) * 0.25)
    np.testing.assert_allclose(scaled(model, 5.0, 0.25).features(x, jnp.asarray(rows)), wanted, rtol=1e-6)


@functools.partial(jax.jit, static_argnums=(2, 3))
def convolved(h, kernel, side, padding):
    weight = kernel.reshape(side, side, h.shape[1], -1)
    return jax.lax.conv_general_dilated(h, weight, (1, 1), padding, dimension_numbers=("NCHW", "HWIO", "NCHW"))


ZEROTH = {  # side of a patch, border, where there is pooling
    "zo_cnn": (zo_cnn(3, (1, 8, 9)), 5, 2, (True, True)),
    "zo_cnn_wide": (zo_cnn_wide(3, (1, 8, 9)), 3, 0, (False, True)),
}


@pytest.mark.parametrize("name", ZEROTH)
@pytest.mark.slow
def test_the_nets_of_decomfl_are_what_xla_computes(name):
    model, side, border, pools = ZEROTH[name]
    x = jax.jit(model.init)(KEY)
    inputs = np.random.default_rng(0).standard_normal((2, 1, 8, 9)).astype(np.float32)

    def wanted(x, inputs):
        h, layout = jnp.moveaxis(inputs, 1, -1), ("NHWC", "HWIO", "NHWC")
        for kernel, bias, pool in zip(x.kernels, x.biases, pools, strict=True):
            filters = kernel.reshape(side, side, -1, kernel.shape[-1])
            h = jax.lax.conv_general_dilated(h, filters, (1, 1), [(border, border)] * 2, dimension_numbers=layout)
            h = jax.nn.relu(h + bias[None, None, None])
            if pool:
                h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = h.reshape(h.shape[0], -1)
        for layer in x.hidden:
            h = jax.nn.relu(h @ layer.weight.T + layer.bias[None])
        return h @ x.head.weight.T + x.head.bias[None]

    ours, theirs = jax.jit(lambda x, i: (model.apply(x, i), wanted(x, i)))(x, inputs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours.shape == (2, 3 if name == "zo_cnn" else 62)


def as_xla_computes_lenet(x, h):
    for kernel, bias in zip(x.kernels, x.biases, strict=True):
        h = jax.nn.relu(convolved(h, kernel, 5, "VALID") + bias[None, :, None, None])
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    h = jnp.moveaxis(h, 1, -1).reshape(h.shape[0], -1)
    for layer in x.hidden:
        h = jax.nn.relu(h @ layer.weight.T + layer.bias[None])
    return h @ x.head.weight.T + x.head.bias[None]


def test_lenet_is_convolutions_relu_pooling_and_dense_layers_as_xla_computes_them():
    model, _, shape = SMALL["lenet"]
    x = jax.tree.map(lambda a: np.asarray(a) + np.float32(0.02), jax.jit(model.init)(KEY))
    inputs = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    ours, wanted = jax.jit(lambda x, inputs: (model.apply(x, inputs), as_xla_computes_lenet(x, inputs)))(x, inputs)
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)


def normalised(h, norm, groups):
    """Wu, He, 2018, in NumPy: h [B, C, H, W]."""
    h = np.asarray(h, np.float64)
    parts = h.reshape(h.shape[0], groups, -1)
    unit = (parts - parts.mean(axis=2, keepdims=True)) / np.sqrt(parts.var(axis=2, keepdims=True) + 1e-5)
    return unit.reshape(h.shape) * np.asarray(norm.scale)[None, :, None, None] + np.asarray(norm.shift)[None, :, None, None]


def test_the_residual_net_is_blocks_of_normalised_convolutions_with_a_skip():
    model, _, shape = SMALL["residual"]
    x = jax.tree.map(lambda a: np.asarray(a) + np.float32(0.1), jax.jit(model.init)(KEY))
    inputs = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    h = np.maximum(normalised(convolved(inputs, x.kernel, 3, "SAME"), x.norm, 2), 0)
    for k, block in enumerate(x.blocks):
        if k:
            h = h[:, :, :6, :8].reshape(3, 4, 3, 2, 4, 2).mean(axis=(3, 5))
        inner = np.maximum(normalised(convolved(np.float32(h), block.kernel_1, 3, "SAME"), block.norm_1, 2), 0)
        inner = normalised(convolved(np.float32(inner), block.kernel_2, 3, "SAME"), block.norm_2, 2)
        skip = h if block.skip is None else np.einsum("bchw,co->bohw", h, np.asarray(block.skip))
        h = np.maximum(inner + skip, 0)
    wanted = h.mean(axis=(2, 3)) @ np.asarray(x.head.weight).T + np.asarray(x.head.bias)
    np.testing.assert_allclose(jax.jit(model.apply)(x, inputs), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: lenet(10, (1, 15, 28)), lambda: residual(10, (3, 3, 32)), lambda: pfl_cnn(0)])
def test_images_that_are_too_small_and_no_outputs_are_refused(make):
    with pytest.raises(FedtierError, match=r"shape|outputs"):
        make()


def test_groups_must_divide_the_widths():
    with pytest.raises(FedtierError, match="groups = 3"):
        residual(10, groups=3)


@pytest.mark.parametrize(
    ("shape", "side", "border", "pools"),
    [
        pytest.param((2, 9, 10), 3, 1, (False, True), id="tiles of one pixel, odd sides"),
        pytest.param((1, 16, 20), 5, 0, (True, True), id="tiles of 4, then 2"),
        pytest.param((1, 12, 8), 5, 2, (True, True), id="a border wider than a tile"),
        pytest.param((1, 14, 18), 3, 0, (False, True), id="tiles of 2 without pooling"),
        pytest.param((3, 8, 16), 3, 1, (True, True), id="a border of one"),
        pytest.param((1, 16, 17), 5, 0, (True, True), id="what no tile divides"),
    ],
)
def test_both_forms_of_the_convolutions_have_the_same_values_and_slopes(shape, side, border, pools):
    """Which one runs depends on the device, which one is right must not."""
    rng = np.random.default_rng(3)
    fans = (shape[0] * side**2, 4 * side**2)
    kernels = tuple(rng.standard_normal((fan, 4)).astype(np.float32) for fan in fans)
    biases = (jnp.asarray(rng.standard_normal(4), jnp.float32), None)
    inputs = rng.standard_normal((3, int(np.prod(shape)))).astype(np.float32)

    def value(form, kernels, inputs):
        z = form(kernels, biases, inputs, shape, side, border, pools)
        return jnp.sum(z * jnp.arange(z.size).reshape(z.shape)) / z.size, z

    by_form = [
        jax.jit(jax.value_and_grad(functools.partial(value, form), argnums=(0, 1), has_aux=True))(kernels, inputs)
        for form in (stages.by_patches, stages.by_tiles)
    ]
    for one, other in zip(*map(jax.tree.leaves, by_form), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    "name", ["cnn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mlp", "lenet", "residual"))]
)
def test_with_half_the_digits_slopes_keep_their_direction_and_parameters_all_their_digits(name):
    model, _, shape = SMALL[name]
    x = jax.jit(model.init)(KEY)
    inputs = jax.random.normal(keys.at(KEY, 1), (16, *shape))
    rows = Rows(inputs, jnp.arange(16) % 3)

    @jax.jit
    def slopes(x):
        return tuple(jax.grad(cross_entropy(kind))(x, rows) for kind in (model, halved(model)))

    full, half = slopes(x)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(half))
    cosine = float(trees.dot(full, half) / (trees.norm(full) * trees.norm(half)))
    assert 0.99 < cosine < 1, "close, and not the same: another pixel may be the largest of four"
    assert float(trees.norm(half)) == pytest.approx(float(trees.norm(full)), rel=0.03)
    text = str(jax.make_jaxpr(halved(model).apply)(x, inputs))
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products and all("bf16" in line for line in products)
