"""The kernels for GPUs: the same numbers as the other forms, interpreted on a CPU, and programs that a GPU would get."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.problem import Rows, cnn, cross_entropy, second_slopes, supervised
from fedtier.problem.models import stages
from fedtier.problem.models.kernels import convolved_largest
from fedtier.theory.estimates import curvature

slow = pytest.mark.slow


def nets(shape, side, outputs, dtype=jnp.float32):
    """Images of two rows [B, H, W, C], and kernels of two nets that see them both."""
    rng = np.random.default_rng(4)
    images = jnp.asarray(rng.standard_normal((2, *shape)), dtype)
    return images, jnp.asarray(rng.standard_normal((2, side**2 * shape[-1], outputs)), dtype)


def with_slopes(convolve, images, kernels):
    """What two nets make of the same images, and the slopes of a sum that weighs every number differently."""

    def value(images, kernel):
        z = convolve(images, kernel).astype(jnp.float32)
        return jnp.sum(z * jnp.cos(jnp.arange(z.size)).reshape(z.shape)), z

    return jax.jit(jax.vmap(jax.value_and_grad(value, argnums=(0, 1), has_aux=True), in_axes=(None, 0)))(images, kernels)


def as_xla_has_it(images, kernel, side, border):
    """XLA's own convolution and pooling."""
    weights = kernel.astype(jnp.float32).reshape(side, side, images.shape[-1], -1)
    form = ("NHWC", "HWIO", "NHWC")
    edges = [(border, border)] * 2
    z = jax.lax.conv_general_dilated(images.astype(jnp.float32), weights, (1, 1), edges, dimension_numbers=form)
    return jax.lax.reduce_window(z, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@pytest.mark.parametrize(
    ("shape", "side", "border", "outputs"),
    [
        pytest.param((4, 6, 3), 3, 1, 4, id="few channels: a row of the kernel at once"),
        pytest.param((5, 7, 6), 3, 1, 4, marks=slow, id="odd sides, a pixel at once"),
        pytest.param((8, 9, 1), 5, 0, 6, marks=slow, id="5x5 without a border"),
        pytest.param((8, 8, 16), 3, 1, 32, marks=slow, id="second stage of the small net"),
        pytest.param((4, 4, 32), 3, 1, 64, marks=slow, id="third"),
        pytest.param((40, 40, 3), 3, 1, 16, marks=slow, id="more squares than one program sums up"),
    ],
)
def test_values_and_slopes_are_those_of_a_convolution_and_a_pooling(shape, side, border, outputs):
    images, kernels = nets(shape, side, outputs)
    found = with_slopes(functools.partial(convolved_largest, side=side, border=border, interpret=True), images, kernels)
    right = with_slopes(functools.partial(as_xla_has_it, side=side, border=border), images, kernels)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True):
        assert np.linalg.norm(one - other) < 2e-5 * np.linalg.norm(other), "two bfloat16 numbers for one: five digits"


@slow
def test_half_precision_keeps_three_digits():
    images, kernels = nets((6, 6, 8), 3, 8, jnp.bfloat16)
    (_, found), slopes = with_slopes(functools.partial(convolved_largest, side=3, border=1, interpret=True), images, kernels)
    (_, right), _ = with_slopes(functools.partial(as_xla_has_it, side=3, border=1), images, kernels)
    assert 1e-5 < np.linalg.norm(found - right) / np.linalg.norm(right) < 5e-3
    assert all(slope.dtype == jnp.bfloat16 for slope in slopes)


def test_a_gpu_would_get_kernels_and_no_patches():
    """The program for CUDA, made without a GPU: a kernel forwards and two backwards for two nets side by side."""
    images, kernels = nets((8, 8, 16), 3, 32)

    def slopes(images, kernel):
        return jax.grad(lambda *both: jnp.sum(convolved_largest(*both, 3, 1)), argnums=(0, 1))(images, kernel)

    program = jax.jit(jax.vmap(slopes, in_axes=(None, 0))).trace(images, kernels).lower(lowering_platforms=("cuda",))
    text = program.as_text()
    assert text.count("custom_call @__gpu$xla.gpu.triton") == 3 and "stablehlo.dot_general" not in text
    assert "stablehlo.reduce_precision" in text, "a cast there and back would be taken for the number itself, with no rest"


def test_kernels_are_taken_where_they_fit_and_nowhere_else(monkeypatch):
    kernels = [np.zeros((27, 16), np.float32)]

    def form(capability="9.0", side=3, pools=(True,), of=kernels):
        monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(compute_capability=capability)])
        return stages._fastest(of, side, pools)

    assert form() is stages.by_patches, "on a CPU"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert form() is stages.by_kernels
    assert form(side=5) is form(pools=(False,)) is form("8.9") is form("12.0") is form("gfx90a") is stages.by_tiles
    assert form(of=[kernels[0].astype(np.float16)]) is form(of=[*kernels, np.zeros((144, 65))]) is stages.by_tiles
    assert form(of=[*kernels, np.zeros((9 * 33, 64))]) is stages.by_tiles
    with jax.default_matmul_precision("BF16_BF16_F32_X3"):
        assert form() is stages.by_kernels
    with jax.default_matmul_precision("float32"):
        assert form() is stages.by_tiles, "more digits than kernels have"
    with second_slopes():
        assert form() is stages.by_tiles
    assert form() is stages.by_kernels


@slow
def test_what_needs_second_slopes_has_them_where_kernels_are_taken(monkeypatch):
    """Kernels have none, and say so; the curvature of a net's loss comes out as on a CPU."""
    model = cnn(3, (1, 8, 8), widths=(4,))
    x, rng = model.init(keys.root(0)), np.random.default_rng(0)
    rows = Rows(rng.standard_normal((6, 64)).astype(np.float32), np.arange(6, dtype=np.int32) % 3)
    problem = supervised(cross_entropy(model), penalty=1.0, proximity=1.0)

    def loss(y):
        return problem.f1(y, rows)

    right = curvature(loss, [x], keys.root(1))
    interpreted = functools.partial(stages.by_kernels, interpret=True)
    monkeypatch.setattr(stages, "_fastest", lambda *_: stages.by_patches if stages._twice.get() else interpreted)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(loss, (x,), (x,))
    np.testing.assert_allclose(curvature(loss, [x], keys.root(1)), right, rtol=1e-3)
