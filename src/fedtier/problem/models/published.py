"""The nets of published tables: two convolutions, each with ReLU and most with 2x2 pooling, then dense layers.

First weights and biases follow PyTorch's law, uniform within 1/sqrt(inputs) of 0, as in the code behind these tables.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Key

from ...errors import whole
from .dense import Linear
from .layers import check_shape, shifted
from .model import Inputs, Model
from .stages import stages


class PublishedNet(NamedTuple):
    kernels: tuple[Float[Array, "patch out"], ...]  # [side^2 channels, out], a patch place by place
    biases: tuple[Float[Array, "out"] | None, ...]
    hidden: tuple[Linear, ...]
    head: Linear


class Form(NamedTuple):
    """What the nets differ in."""

    widths: tuple[int, int]  # channels of the convolutions
    hidden: tuple[int, ...]  # dense layers before the last
    side: int = 5  # of a convolution's patch
    border: int = 0  # of zeros around its images
    pools: tuple[bool, bool] = (True, True)  # after which convolutions there is pooling
    least: int = 16  # pixels of a side


def lenet(outputs: int, shape: tuple[int, int, int] = (3, 32, 32), *, bias: bool = True) -> Model:
    """LeNet as NIID-Bench has it (Li, Diao, Chen, He, 2022): convolutions of 6 and 16 channels, dense layers of 120 and 84."""
    return _net("lenet", outputs, shape, Form((6, 16), (120, 84)), bias)


def pfl_cnn(outputs: int, shape: tuple[int, int, int] = (1, 28, 28), *, bias: bool = True) -> Model:
    """The net of PFLlib's tables (Zhang et al., 2023): convolutions of 32 and 64 channels, a dense layer of 512."""
    return _net("pfl_cnn", outputs, shape, Form((32, 64), (512,)), bias)


def zo_cnn(outputs: int, shape: tuple[int, int, int] = (1, 28, 28), *, bias: bool = True) -> Model:
    """DeComFL's net for MNIST (Li, Ying, Liu, Dong, Yang, 2025): convolutions of 16 and 32 channels with a border, no dense
    layer but the last."""
    return _net("zo_cnn", outputs, shape, Form((16, 32), (), border=2, least=4), bias)


def zo_cnn_wide(outputs: int, shape: tuple[int, int, int] = (1, 28, 28), *, bias: bool = True) -> Model:
    """DeComFL's net for Fashion-MNIST: convolutions of 3x3 with 32 and 64 channels, pooling after the second alone, a dense
    layer of 128, and 62 outputs, of which `outputs` have a class."""
    whole("outputs", outputs)
    return _net("zo_cnn_wide", max(outputs, 62), shape, Form((32, 64), (128,), side=3, pools=(False, True), least=6), bias)


def _net(name: str, outputs: int, shape: tuple[int, int, int], form: Form, bias: bool) -> Model:
    whole("outputs", outputs)
    check_shape(shape, form.least)
    channels, height, width = shape
    for halved in form.pools:
        height, width = (
            (side + 2 * form.border - form.side + 1) // (2 if halved else 1) for side in (height, width)
        )  # fmt: skip
    sizes = (form.widths[-1] * height * width, *form.hidden, outputs)
    fans = [form.side**2 * incoming for incoming in (channels, *form.widths[:-1])]

    def init(key: Key[Array, ""]) -> PublishedNet:
        draws = jax.random.split(key, len(fans) + len(sizes) - 1)
        conv = [_layer(k, (fan, out), fan, bias) for k, fan, out in zip(draws, fans, form.widths, strict=False)]
        dense = [
            Linear(*_layer(k, (out, size), size, bias, out))
            for k, size, out in zip(draws[len(fans) :], sizes[:-1], sizes[1:], strict=True)
        ]
        kernels, biases = zip(*conv, strict=True)
        return PublishedNet(kernels, biases, tuple(dense[:-1]), dense[-1])

    def features(x: PublishedNet, inputs: Inputs) -> Float[Array, "B features"]:
        values = stages(
            x.kernels, x.biases, inputs, shape, side=form.side, border=form.border, pools=form.pools
        )  # fmt: skip
        for layer in x.hidden:
            values = jax.nn.relu(shifted(values @ layer.weight.T, layer.bias))
        return values

    def apply(x: PublishedNet, inputs: Inputs) -> Float[Array, "B outputs"]:
        return shifted(features(x, inputs) @ x.head.weight.T, x.head.bias)

    return Model(name, init, apply, features)


def _layer(
    key: Key[Array, ""], shape: tuple[int, int], fan: int, bias: bool, out: int | None = None
) -> tuple[Array, Array | None]:
    """Weights and bias of a layer with `fan` inputs; `out` where the last axis of `shape` is not its outputs."""
    weights, shifts = jax.random.split(key)
    bound = fan**-0.5
    drawn = jax.random.uniform(weights, shape, minval=-bound, maxval=bound)
    return drawn, jax.random.uniform(shifts, (out or shape[-1],), minval=-bound, maxval=bound) if bias else None
