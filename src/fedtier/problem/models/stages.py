"""What the nets without skips begin with: convolution, 2x2 pooling in most, intercept and ReLU, once for each kernel.

A convolution has two forms: by patches, each with one pixel of the output, and by `tiles`, with some of its pixels at once.
Tiles are faster on a GPU, and on a CPU where the first kernel has few outputs, as LeNet's has (docs/speed.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jaxtyping import Array, Float

from . import tiles
from .layers import as_images, patches_of, pooled, product_of, shifted
from .model import Inputs

Kernels = Sequence[Float[Array, "_ _"]]  # [patch, out]: no two have one size
Biases = Sequence[Float[Array, "_"] | None]
Pools = Sequence[bool]  # after which convolutions there is pooling

NARROW = 16  # fewer outputs of the first kernel make a poor product


def stages(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], *, side: int, border: int,
    pools: Pools | None = None,
) -> Float[Array, "B features"]:  # fmt: skip
    """The numbers of each row after all stages, place by place. Pooling, in the stages that `pools` says or in all, comes
    before bias and ReLU: the same, for a quarter of the work."""
    narrow = kernels[0].shape[1] < NARROW
    form = by_tiles if narrow or jax.default_backend() != "cpu" else by_patches
    return form(kernels, biases, inputs, shape, side, border, pools or (True,) * len(kernels))


def by_patches(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools
) -> Float[Array, "B features"]:
    images = as_images(inputs, shape)
    for kernel, bias, halved in zip(kernels, biases, pools, strict=True):
        values = product_of(patches_of(images, side, border), kernel)
        images = jax.nn.relu(shifted(pooled(values) if halved else values, bias))
    return images.reshape(images.shape[0], -1)


def by_tiles(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools
) -> Float[Array, "B features"]:
    layers = tiles.plan(shape, side, border, pools)
    images = tiles.cut(as_images(inputs, shape), layers[0].tile)
    for kernel, bias, small, layer in zip(kernels, biases, pools, layers, strict=True):
        values = tiles.convolved(images, kernel, layer)
        images = jax.nn.relu(shifted(tiles.halved(values) if small else values, bias))
    return tiles.joined(images).reshape(images.shape[0], -1)
