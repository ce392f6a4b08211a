"""The nets of published tables: two convolutions of 5x5 without a border, each with ReLU and 2x2 pooling, then dense layers."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...errors import whole
from .dense import Linear
from .layers import check_shape, he_uniform, shifted
from .model import Inputs, Model
from .stages import stages


class FiveByFive(NamedTuple):
    kernels: tuple[Float[Array, "patch out"], ...]  # [25 channels, out], a 5x5 patch place by place
    biases: tuple[Float[Array, "out"] | None, ...]
    hidden: tuple[Linear, ...]
    head: Linear


def lenet(outputs: int, shape: tuple[int, int, int] = (3, 32, 32), *, bias: bool = True) -> Model:
    """LeNet as NIID-Bench has it (Li, Diao, Chen, He, 2022): convolutions of 6 and 16 channels, dense layers of 120 and 84."""
    return _net("lenet", outputs, shape, (6, 16), (120, 84), bias)


def pfl_cnn(outputs: int, shape: tuple[int, int, int] = (1, 28, 28), *, bias: bool = True) -> Model:
    """The net of PFLlib's tables (Zhang et al., 2023): convolutions of 32 and 64 channels, a dense layer of 512."""
    return _net("pfl_cnn", outputs, shape, (32, 64), (512,), bias)


def _net(
    name: str, outputs: int, shape: tuple[int, int, int], widths: tuple[int, ...], hidden: tuple[int, ...], bias: bool
) -> Model:
    whole("outputs", outputs)
    check_shape(shape, 16)
    channels, height, width = shape
    for _ in widths:
        height, width = (height - 4) // 2, (width - 4) // 2
    sizes = (widths[-1] * height * width, *hidden, outputs)

    def init(key: Key[Array, ""]) -> FiveByFive:
        fans = [25 * incoming for incoming in (channels, *widths[:-1])]
        draws = jax.random.split(key, len(widths) + len(sizes) - 1)
        dense = [
            Linear(he_uniform(k, (out, size), size), jnp.zeros(out) if bias else None)
            for k, size, out in zip(draws[len(widths) :], sizes[:-1], sizes[1:], strict=True)
        ]
        return FiveByFive(
            kernels=tuple(he_uniform(k, (fan, out), fan) for k, fan, out in zip(draws, fans, widths, strict=False)),
            biases=tuple(jnp.zeros(out) if bias else None for out in widths),
            hidden=tuple(dense[:-1]),
            head=dense[-1],
        )

    def features(x: FiveByFive, inputs: Inputs) -> Float[Array, "B features"]:
        values = stages(x.kernels, x.biases, inputs, shape, side=5, border=0)
        for layer in x.hidden:
            values = jax.nn.relu(shifted(values @ layer.weight.T, layer.bias))
        return values

    def apply(x: FiveByFive, inputs: Inputs) -> Float[Array, "B outputs"]:
        return shifted(features(x, inputs) @ x.head.weight.T, x.head.bias)

    return Model(name, init, apply, features)
