"""Models as a pair of pure functions: init(key) -> parameters, apply(parameters, inputs [B, ...]) -> outputs
[B, K]: a logit per class, or the one number of a regression.

Anything of this form is a model. Parameters are a tree of arrays; what is not an array (activation functions, sizes)
stays inside `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key, Num, PyTree, Real

from ..errors import require, whole

Inputs = Num[Array | np.ndarray, "B ..."]  # a batch


@runtime_checkable
class Init(Protocol):
    def __call__(self, key: Key[Array, ""], /) -> PyTree:
        """The parameters to start from: a tree of arrays, the same for the same key."""
        ...


@runtime_checkable
class Apply(Protocol):
    def __call__(self, x: PyTree, inputs: Inputs, /) -> Float[Array, "B outputs"]:
        """The logits of a batch, a row for each input. Pure and traceable; `x` is a tree like that of `Init`."""
        ...


class Model(NamedTuple):
    """A model as two functions: first parameters from a key, and outputs from parameters and inputs."""

    name: str  # for people
    init: Init
    apply: Apply


class Linear(NamedTuple):
    """One dense layer."""

    weight: Float[Array, "outputs features"]  # rows run along memory: up to twice as fast on a CPU
    bias: Float[Array, "outputs"] | None = None  # None: no intercept, and no leaf of the tree


def softmax(features: int, classes: int, *, bias: bool = True) -> Model:
    """Softmax regression; starts at zero, where all classes are equally likely. `bias = False` is the paper's form."""
    whole("classes", classes, 2)
    return _dense("softmax", features, classes, bias)


def linear(features: int, outputs: int = 1, *, bias: bool = True) -> Model:
    """Linear regression; starts at zero."""
    whole("outputs", outputs)
    return _dense("linear", features, outputs, bias)


def _dense(name: str, features: int, outputs: int, bias: bool) -> Model:
    whole("features", features)

    def init(key: object) -> Linear:  # drawn by nobody: it starts at zero
        return Linear(jnp.zeros((outputs, features)), jnp.zeros(outputs) if bias else None)

    def apply(x: Linear, inputs: Inputs) -> Float[Array, "B outputs"]:
        product = x.weight @ inputs.reshape(inputs.shape[0], -1).T  # this order: see docs/scaling.md
        return (product if x.bias is None else product + x.bias[:, None]).T

    return Model(name, init, apply)


def scaled(model: Model, shift: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Model:
    """`model` fed with (inputs - shift) * scale. Inputs stay as they are stored, uint8 for images, and are scaled a batch
    at a time: on a CPU that is faster than rows of four times the bytes (docs/scaling.md)."""
    shift, scale = (a[None] if a.ndim else a for a in (np.asarray(shift, np.float32), np.asarray(scale, np.float32)))
    return model._replace(apply=lambda x, inputs: model.apply(x, (inputs.astype(jnp.float32) - shift) * scale))


def mlp(features: int, outputs: int, hidden: int = 64, depth: int = 1, *, bias: bool = True) -> Model:
    """A multi-layer perceptron: `depth` hidden layers of width `hidden`, ReLU; an output per class, or one for regression."""
    whole("features", features)
    whole("outputs", outputs)
    whole("hidden", hidden)
    whole("depth", depth)

    def make(key: Key[Array, ""]) -> eqx.Module:
        return eqx.nn.MLP(features, outputs, hidden, depth, activation=jax.nn.relu, use_bias=bias, use_final_bias=bias, key=key)

    return from_equinox("mlp", make, lambda inputs: inputs.reshape(inputs.shape[0], -1))


class Convolutional(NamedTuple):
    kernels: tuple[Float[Array, "patch out"], ...]  # [9 channels, out], a 3x3 patch channel by channel
    biases: tuple[Float[Array, "out"] | None, ...]  # None: no intercept, as in `Linear`
    weight: Float[Array, "outputs features"]
    bias: Float[Array, "outputs"] | None


def cnn(
    outputs: int, shape: tuple[int, int, int] = (3, 32, 32), widths: tuple[int, ...] = (16, 32, 64), *, bias: bool = True
) -> Model:
    """A small convolutional net for images [channels, height, width]: 3x3 convolutions of these widths, each followed by
    ReLU and 2x2 pooling, then one dense layer.

    A convolution is written as one product of all 3x3 patches with the kernel: inside a loop on a CPU that is 5 to 20
    times faster than XLA's own convolution, and with one net per client on a GPU twice as fast as its grouped one.
    """
    whole("outputs", outputs)
    least = 2 ** len(widths)
    fits = len(shape) == 3 and shape[0] >= 1 and min(shape[1:]) >= least
    require(fits, "shape", shape, f"must be (channels, height, width) with sides of {least} or more")
    channels, height, width = shape
    features = widths[-1] * (height // least) * (width // least)

    def init(key: Key[Array, ""]) -> Convolutional:
        fans = [9 * incoming for incoming in (channels, *widths[:-1])]
        *each, last = jax.random.split(key, len(widths) + 1)
        return Convolutional(
            kernels=tuple(_uniform(k, (fan, out), fan) for k, fan, out in zip(each, fans, widths, strict=True)),
            biases=tuple(jnp.zeros(out) if bias else None for out in widths),
            weight=_uniform(last, (outputs, features), features),
            bias=jnp.zeros(outputs) if bias else None,
        )

    def apply(x: Convolutional, inputs: Inputs) -> Float[Array, "B outputs"]:
        images = jnp.moveaxis(inputs.reshape(inputs.shape[0], *shape), 1, -1)
        for kernel, shift in zip(x.kernels, x.biases, strict=True):
            pooled = _pooled(_product(_patches(images), kernel))  # before bias and ReLU: the same, for a quarter of the work
            images = jax.nn.relu(_shifted(pooled, shift))
        return _shifted(images.reshape(images.shape[0], -1) @ x.weight.T, x.bias)

    return Model("cnn", init, apply)


def _shifted(values: Array, bias: Array | None) -> Array:
    return values if bias is None else values + bias.reshape((1,) * (values.ndim - 1) + (-1,))


def _uniform(key: Key[Array, ""], shape: tuple[int, ...], fan: int) -> Array:
    """He's uniform start for ReLU layers with `fan` inputs."""
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) * (6.0 / fan) ** 0.5


def _patches(images: Float[Array, "B H W C"]) -> Float[Array, "B H W D"]:
    """Around every pixel its 3x3 neighbourhood, zeros beyond the border."""
    height, width = images.shape[1:3]
    padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return jnp.concatenate([padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=-1)


def _product(patches: Float[Array, "B H W D"], kernel: Float[Array, "D O"]) -> Float[Array, "B H W O"]:
    """patches @ kernel. The kernel is turned first, and kept so, because its slope is then the faster of two products."""
    turned = jax.lax.optimization_barrier(kernel.T)
    flat = jax.lax.dot_general(patches.reshape(-1, patches.shape[-1]), turned, (((1,), (1,)), ((), ())))
    return flat.reshape(*patches.shape[:-1], -1)


def _pooled(images: Float[Array, "B H W C"]) -> Float[Array, "B h w C"]:
    """The largest of each 2x2 square, the first of equals; an odd last row or column is left out.

    The position of the largest is computed without a gradient, and its value is then selected by the position: the gradient
    is one selection, where that of max would repeat the comparisons.
    """
    rows, height, width, channels = images.shape
    even = images[:, : height // 2 * 2, : width // 2 * 2]
    squares = even.reshape(rows, height // 2, 2, width // 2, 2, channels)
    fixed = jax.lax.stop_gradient(squares)
    (a, b), (c, d) = ((fixed[:, :, i, :, 0], fixed[:, :, i, :, 1]) for i in range(2))
    upper = jnp.maximum(a, b) >= jnp.maximum(c, d)
    where = jnp.where(upper, jnp.where(a >= b, 0, 1), jnp.where(c >= d, 2, 3)).astype(jnp.int8)
    places = jnp.arange(4, dtype=jnp.int8).reshape(1, 1, 2, 1, 2, 1)
    return jnp.sum(jnp.where(where[:, :, None, :, None] == places, squares, 0), axis=(2, 4))


def from_equinox(
    name: str, make: Callable[[Key[Array, ""]], eqx.Module], prepare: Callable[[Inputs], Inputs] = lambda inputs: inputs
) -> Model:
    """Any Equinox module over one input as a Model; `prepare` shapes a batch of inputs first."""
    static = eqx.filter(eqx.filter_eval_shape(make, jax.random.key(0)), lambda leaf: not _is_array(leaf))

    def apply(x: PyTree, inputs: Inputs) -> Float[Array, "B outputs"]:
        return jax.vmap(eqx.combine(x, static))(prepare(inputs))

    return Model(name, init=lambda key: eqx.filter(make(key), eqx.is_array), apply=apply)


def _is_array(leaf: object) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
