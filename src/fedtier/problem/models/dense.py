"""Models of dense layers: softmax, linear and logistic regression, the multi-layer perceptron."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from ...errors import whole
from .model import Inputs, Model, from_equinox


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


def logistic(features: int, *, bias: bool = True) -> Model:
    """Logistic regression for two classes with one logit z: the outputs are (0, z), so that their cross entropy is the binary
    one. Weights and intercept start uniform within 1/sqrt(features) of 0, as PyTorch's nn.Linear does."""
    whole("features", features)
    bound = features**-0.5

    def init(key: Key[Array, ""]) -> Linear:
        numbers = jax.random.uniform(key, (features + 1,), minval=-bound, maxval=bound)
        return Linear(numbers[None, :-1], numbers[-1:] if bias else None)

    def apply(x: Linear, inputs: Inputs) -> Float[Array, "B outputs"]:
        z = x.weight @ inputs.reshape(inputs.shape[0], -1).T
        z = z if x.bias is None else z + x.bias[:, None]
        return jnp.concatenate([jnp.zeros_like(z), z]).T

    return Model("logistic", init, apply)


def _dense(name: str, features: int, outputs: int, bias: bool) -> Model:
    whole("features", features)

    def init(key: object) -> Linear:  # drawn by nobody: it starts at zero
        return Linear(jnp.zeros((outputs, features)), jnp.zeros(outputs) if bias else None)

    def apply(x: Linear, inputs: Inputs) -> Float[Array, "B outputs"]:
        product = x.weight @ inputs.reshape(inputs.shape[0], -1).T  # this order: see docs/scaling.md
        return (product if x.bias is None else product + x.bias[:, None]).T

    return Model(name, init, apply)


def mlp(features: int, outputs: int, hidden: int = 64, depth: int = 1, *, bias: bool = True) -> Model:
    """A multi-layer perceptron: `depth` hidden layers of width `hidden`, ReLU; an output per class, or one for regression."""
    whole("features", features)
    whole("outputs", outputs)
    whole("hidden", hidden)
    whole("depth", depth)

    def make(key: Key[Array, ""]) -> eqx.Module:
        return eqx.nn.MLP(features, outputs, hidden, depth, activation=jax.nn.relu, use_bias=bias, use_final_bias=bias, key=key)

    def last_hidden(x: PyTree, inputs: Inputs) -> Float[Array, "B hidden"]:
        values = jnp.asarray(inputs.reshape(inputs.shape[0], -1))
        for layer in x.layers[:-1]:
            product = values @ layer.weight.T
            values = jax.nn.relu(product if layer.bias is None else product + layer.bias[None])
        return values

    made = from_equinox("mlp", make, lambda inputs: inputs.reshape(inputs.shape[0], -1))
    return made._replace(features=last_hidden)
