"""Models as pure functions: init(key) -> parameters, apply(parameters, inputs [B, ...]) -> outputs
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


@runtime_checkable
class Features(Protocol):
    def __call__(self, x: PyTree, inputs: Inputs, /) -> Float[Array, "B features"]:
        """The output of the last hidden layer, a row for each input."""
        ...


class Model(NamedTuple):
    """A model as functions: first parameters from a key, outputs from parameters and inputs, and what its last layer gets."""

    name: str  # for people
    init: Init
    apply: Apply
    features: Features | None = None  # None where there is no hidden layer, or nobody knows


def scaled(model: Model, shift: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."]) -> Model:
    """`model` fed with (inputs - shift) * scale. Inputs stay as they are stored, uint8 for images, and are scaled a batch
    at a time: on a CPU that is faster than rows of four times the bytes (docs/scaling.md)."""
    shift, scale = (a[None] if a.ndim else a for a in (np.asarray(shift, np.float32), np.asarray(scale, np.float32)))

    def prepared(inputs: Inputs) -> Inputs:
        return (inputs.astype(jnp.float32) - shift) * scale

    features = model.features
    return model._replace(
        apply=lambda x, inputs: model.apply(x, prepared(inputs)),
        features=None if features is None else lambda x, inputs: features(x, prepared(inputs)),
    )


def halved(model: Model) -> Model:
    """`model` computed with three digits, in bfloat16, from parameters in float32 and to outputs in float32: slopes come in
    float32, so that the small steps of a descent are not lost in the last digit of a parameter."""

    def computed(function: Apply | Features) -> Apply:
        def called(x: PyTree, inputs: Inputs) -> Float[Array, "B outputs"]:
            with jax.default_matmul_precision("default"):  # three products of bfloat16 for one would be in vain
                return function(_half(x), _half(inputs)).astype(jnp.float32)

        return called

    features = model.features
    return model._replace(apply=computed(model.apply), features=None if features is None else computed(features))


def _half(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


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
