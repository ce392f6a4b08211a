"""Models as a pair of pure functions: init(key) -> parameters, apply(parameters, inputs [B, ...]) -> logits [B, classes].

Anything of this form is a model. Parameters are a tree of arrays; what is not an array (activation functions, sizes)
stays inside `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from ..errors import require, whole


class Model(NamedTuple):
    name: str
    init: Callable[[Any], PyTree]
    apply: Callable[[PyTree, Any], Float[Array, "B classes"]]


class Softmax(NamedTuple):
    weight: Float[Array, "classes features"]  # rows run along memory: up to twice as fast on a CPU


def softmax(features: int, classes: int) -> Model:
    """Softmax regression without bias, as in the paper; starts at zero, where all classes are equally likely."""
    whole("features", features)
    whole("classes", classes, 2)
    return Model(
        "softmax",
        init=lambda key: Softmax(jnp.zeros((classes, features))),
        apply=lambda x, inputs: (x.weight @ inputs.reshape(inputs.shape[0], -1).T).T,  # this order: see docs/scaling.md
    )


def mlp(features: int, classes: int, hidden: int = 64, depth: int = 1) -> Model:
    """A multi-layer perceptron: `depth` hidden layers of width `hidden`, ReLU."""
    whole("features", features)
    whole("classes", classes, 2)
    whole("hidden", hidden)
    whole("depth", depth)

    def make(key: Key[Array, ""]) -> eqx.Module:
        return eqx.nn.MLP(features, classes, hidden, depth, activation=jax.nn.relu, key=key)

    return from_equinox("mlp", make, lambda inputs: inputs.reshape(inputs.shape[0], -1))


class SmallCNN(eqx.Module):
    """Two 5x5 convolutions with pooling and two dense layers: the usual small net for 32x32 colour images."""

    convolutions: list[eqx.nn.Conv2d]
    dense: list[eqx.nn.Linear]

    def __init__(self, shape: tuple[int, int, int], classes: int, key: Key[Array, ""]) -> None:
        channels, height, width = shape
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.convolutions = [
            eqx.nn.Conv2d(channels, 32, 5, padding=2, key=k1),
            eqx.nn.Conv2d(32, 64, 5, padding=2, key=k2),
        ]
        self.dense = [eqx.nn.Linear(64 * (height // 4) * (width // 4), 128, key=k3), eqx.nn.Linear(128, classes, key=k4)]

    def __call__(self, image: Float[Array, "C H W"]) -> Float[Array, "classes"]:
        for convolution in self.convolutions:
            image = eqx.nn.MaxPool2d(2, 2)(jax.nn.relu(convolution(image)))
        return self.dense[1](jax.nn.relu(self.dense[0](image.reshape(-1))))


def cnn(classes: int, shape: tuple[int, int, int] = (3, 32, 32)) -> Model:
    """A small convolutional net for images [channels, height, width]; inputs may be flat."""
    whole("classes", classes, 2)
    fits = len(shape) == 3 and shape[0] >= 1 and min(shape[1:]) >= 4
    require(fits, "shape", shape, "must be (channels, height, width) with sides of 4 or more")
    return from_equinox(
        "cnn",
        lambda key: SmallCNN(shape, classes, key),
        lambda inputs: inputs.reshape(inputs.shape[0], *shape),
    )


def from_equinox(name: str, make: Callable[[Any], Any], prepare: Callable[[Any], Any] = lambda inputs: inputs) -> Model:
    """Any Equinox module over one input as a Model; `prepare` shapes a batch of inputs first."""
    static = eqx.filter(eqx.filter_eval_shape(make, jax.random.key(0)), lambda leaf: not _is_array(leaf))

    def apply(x: PyTree, inputs: Any) -> Float[Array, "B classes"]:
        return jax.vmap(eqx.combine(x, static))(prepare(inputs))

    return Model(name, init=lambda key: eqx.filter(make(key), eqx.is_array), apply=apply)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
