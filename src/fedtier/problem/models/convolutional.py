"""The small convolutional net for images."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...errors import whole
from .layers import check_shape, he_uniform, shifted
from .model import Inputs, Model
from .stages import stages


class Convolutional(NamedTuple):
    kernels: tuple[Float[Array, "patch out"], ...]  # [9 channels, out], a 3x3 patch channel by channel
    biases: tuple[Float[Array, "out"] | None, ...]  # None: no intercept, as in `Linear`
    weight: Float[Array, "outputs features"]
    bias: Float[Array, "outputs"] | None


def cnn(
    outputs: int, shape: tuple[int, int, int] = (3, 32, 32), widths: tuple[int, ...] = (16, 32, 64), *, bias: bool = True
) -> Model:
    """A small convolutional net for images [channels, height, width]: 3x3 convolutions of these widths, each followed by
    ReLU and 2x2 pooling, then one dense layer."""
    whole("outputs", outputs)
    least = 2 ** len(widths)
    check_shape(shape, least)
    channels, height, width = shape
    flat = widths[-1] * (height // least) * (width // least)

    def init(key: Key[Array, ""]) -> Convolutional:
        fans = [9 * incoming for incoming in (channels, *widths[:-1])]
        *each, last = jax.random.split(key, len(widths) + 1)
        return Convolutional(
            kernels=tuple(he_uniform(k, (fan, out), fan) for k, fan, out in zip(each, fans, widths, strict=True)),
            biases=tuple(jnp.zeros(out) if bias else None for out in widths),
            weight=he_uniform(last, (outputs, flat), flat),
            bias=jnp.zeros(outputs) if bias else None,
        )

    def features(x: Convolutional, inputs: Inputs) -> Float[Array, "B features"]:
        return stages(x.kernels, x.biases, inputs, shape, side=3, border=1)

    def apply(x: Convolutional, inputs: Inputs) -> Float[Array, "B outputs"]:
        return shifted(features(x, inputs) @ x.weight.T, x.bias)

    return Model("cnn", init, apply, features)
