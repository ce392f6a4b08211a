"""A small residual net with group normalisation, which needs no statistics of the batch and so no state."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...errors import require, whole
from .dense import Linear
from .layers import as_images, check_shape, he_uniform, patches_of, product_of, shifted
from .model import Inputs, Model

SMALLEST = 1e-5  # added to a variance


class Norm(NamedTuple):
    """Group normalisation: zero mean and unit variance over a group of channels of one image, then a scale and a shift."""

    scale: Float[Array, "channels"]
    shift: Float[Array, "channels"]


class Block(NamedTuple):
    """relu(skip + norm_2(conv(relu(norm_1(conv(images))))))"""

    kernel_1: Float[Array, "patch out"]
    norm_1: Norm
    kernel_2: Float[Array, "patch out"]
    norm_2: Norm
    skip: Float[Array, "channels out"] | None  # a 1x1 convolution where the width changes


class Residual(NamedTuple):
    kernel: Float[Array, "patch out"]
    norm: Norm
    blocks: tuple[Block, ...]
    head: Linear


def residual(
    outputs: int,
    shape: tuple[int, int, int] = (3, 32, 32),
    widths: tuple[int, ...] = (16, 32, 64),
    *,
    groups: int = 8,
    bias: bool = True,
) -> Model:
    """A residual net for images [channels, height, width]: a 3x3 convolution, one block of two for each width, with means of
    2x2 squares between blocks, the mean over the image, and a dense head. 77,850 parameters on 3x32x32 images with 10
    classes. `bias` is the head's; a normalisation has a shift in any case."""
    whole("outputs", outputs)
    whole("groups", groups)
    require(all(width % groups == 0 for width in widths), "groups", groups, f"must divide the widths {widths}")
    check_shape(shape, 2 ** (len(widths) - 1))

    def init(key: Key[Array, ""]) -> Residual:
        first, last, *each = jax.random.split(key, 2 + len(widths))
        blocks = [_block(k, before, out) for k, before, out in zip(each, (widths[0], *widths[:-1]), widths, strict=True)]
        head = Linear(he_uniform(last, (outputs, widths[-1]), widths[-1]), jnp.zeros(outputs) if bias else None)
        fan = 9 * shape[0]
        return Residual(he_uniform(first, (fan, widths[0]), fan), _norm(widths[0]), tuple(blocks), head)

    def features(x: Residual, inputs: Inputs) -> Float[Array, "B features"]:
        images = product_of(patches_of(as_images(inputs, shape)), x.kernel)
        images = jax.nn.relu(_normalised(images, x.norm, groups))
        for k, block in enumerate(x.blocks):
            images = _through(block, _halved(images) if k else images, groups)
        return jnp.mean(images, axis=(1, 2))

    def apply(x: Residual, inputs: Inputs) -> Float[Array, "B outputs"]:
        return shifted(features(x, inputs) @ x.head.weight.T, x.head.bias)

    return Model("residual", init, apply, features)


def _norm(width: int) -> Norm:
    return Norm(jnp.ones(width), jnp.zeros(width))


def _block(key: Key[Array, ""], before: int, out: int) -> Block:
    a, b, c = jax.random.split(key, 3)
    skip = None if before == out else he_uniform(c, (before, out), 2 * before)
    return Block(
        he_uniform(a, (9 * before, out), 9 * before), _norm(out), he_uniform(b, (9 * out, out), 9 * out), _norm(out), skip
    )


def _through(block: Block, images: Float[Array, "B H W C"], groups: int) -> Float[Array, "B H W O"]:
    inner = jax.nn.relu(_normalised(product_of(patches_of(images), block.kernel_1), block.norm_1, groups))
    inner = _normalised(product_of(patches_of(inner), block.kernel_2), block.norm_2, groups)
    return jax.nn.relu(inner + (images if block.skip is None else product_of(images, block.skip)))


def _halved(images: Float[Array, "B H W C"]) -> Float[Array, "B h w C"]:
    """The means of 2x2 squares; an odd last row or column is left out."""
    rows, height, width, channels = images.shape
    even = images[:, : height // 2 * 2, : width // 2 * 2]
    return jnp.mean(even.reshape(rows, height // 2, 2, width // 2, 2, channels), axis=(2, 4))


def _normalised(images: Float[Array, "B H W C"], norm: Norm, groups: int) -> Float[Array, "B H W C"]:
    parts = images.reshape(*images.shape[:3], groups, -1)
    mean = jnp.mean(parts, axis=(1, 2, 4), keepdims=True)
    centred = parts - mean
    variance = jnp.mean(centred**2, axis=(1, 2, 4), keepdims=True)
    unit = (centred / jnp.sqrt(variance + SMALLEST)).reshape(images.shape)
    return unit * norm.scale[None, None, None] + norm.shift[None, None, None]
