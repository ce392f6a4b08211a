"""A net of ours at one client: any shape, trained by Adam on its own rows and the guidance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from ...problem import Model, Rows
from .contract import Guidance


class JaxNet:
    """A `Model` of ours, made for the sizes of the data by `make(features, classes)`; it goes on from where it was."""

    def __init__(self, make: Callable[[int, int], Model], *, lr: float = 1e-3, batch: int = 64, epochs: int = 4) -> None:
        self.make, self.lr, self.batch, self.epochs = make, lr, batch, epochs
        self.x: PyTree = None
        self.classes = 0

    def fit(self, rows: Rows, guidance: Guidance) -> None:
        self.classes = guidance.classes
        model, step = self._programs(rows.inputs)
        x = model.init(jax.random.key(guidance.seed)) if self.x is None else jax.tree.map(jnp.asarray, self.x)
        rng, memory = np.random.default_rng(guidance.seed), optax.scale_by_adam().init(x)
        for _ in range(self.epochs * max(1, len(rows.labels) // self.batch)):
            k, p = rng.integers(0, len(rows.labels), self.batch), rng.integers(0, len(guidance.inputs), self.batch)
            batch = (rows.inputs[k], rows.labels[k], guidance.inputs[p], guidance.shares[p])
            x, memory = step(x, memory, guidance.weight, self.lr, *batch)
        self.x = jax.tree.map(np.asarray, x)

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        model, _ = self._programs(inputs)
        x = jax.tree.map(jnp.asarray, self.x)
        return np.asarray(jax.nn.softmax(model.apply(x, jnp.asarray(inputs, jnp.float32))))

    def _programs(self, inputs: Array | np.ndarray) -> tuple[Model, Callable[..., tuple[PyTree, PyTree]]]:
        return _programs(self.make, int(np.prod(inputs.shape[1:])), self.classes)


@cache
def _programs(
    make: Callable[[int, int], Model], features: int, classes: int
) -> tuple[Model, Callable[..., tuple[PyTree, PyTree]]]:
    """The model, and one step of Adam on its own rows and the guidance: compiled once for all clients of a kind."""
    model, adam = make(features, classes), optax.scale_by_adam()

    def loss(x: PyTree, weight: Array, own: Array, labels: Array, shown: Array, shares: Array) -> Array:
        mine = optax.softmax_cross_entropy_with_integer_labels(model.apply(x, own), labels).mean()
        return mine + weight * optax.softmax_cross_entropy(model.apply(x, shown), shares).mean()

    @jax.jit
    def step(x: PyTree, memory: PyTree, weight: Array, lr: Array, *batch: Array) -> tuple[PyTree, PyTree]:
        update, memory = adam.update(jax.grad(loss)(x, weight, *batch), memory)
        return jax.tree.map(lambda a, b: a - lr * b, x, update), memory

    return model, step
