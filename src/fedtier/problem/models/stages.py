"""What the nets without skips begin with: convolution, 2x2 pooling in most, intercept and ReLU, once for each kernel.

A convolution has three forms: by patches, each with one pixel of the output, by `tiles`, with some of its pixels at once, and
by `kernels` written for GPUs, with its pooling. The fastest is taken (docs/speed.md): on a CPU patches, or tiles where the
first kernel has few outputs, as LeNet's has; on a GPU kernels for pooled stages of 3x3 patches and few channels, else tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from . import tiles
from .layers import as_images, patches_of, pooled, product_of, shifted
from .model import Inputs

Kernels = Sequence[Float[Array, "_ _"]]  # [patch, out]: no two have one size
Biases = Sequence[Float[Array, "_"] | None]
Pools = Sequence[bool]  # after which convolutions there is pooling

NARROW = 16  # fewer outputs of the first kernel make a poor product
DIGITS = ("default", "bfloat16", "tensorfloat32", "bf16_bf16_f32", "bf16_bf16_f32_x3", "tf32_tf32_f32")  # kernels keep as many
SMALL, DEEP, WIDE = 3, 32, 64  # side of the patches for which kernels are faster than tiles, and most channels and outputs
MEASURED = "9."  # compute capability of the GPUs that kernels ran on; others have less room, or were not tried

_twice: ContextVar[bool] = ContextVar("twice", default=False)


def stages(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], *, side: int, border: int,
    pools: Pools | None = None,
) -> Float[Array, "B features"]:  # fmt: skip
    """The numbers of each row after all stages, place by place. Pooling, in the stages that `pools` says or in all, comes
    before bias and ReLU: the same, for a quarter of the work."""
    pools = pools or (True,) * len(kernels)
    return _fastest(kernels, side, pools)(kernels, biases, inputs, shape, side, border, pools)


@contextmanager
def second_slopes() -> Iterator[None]:
    """What is traced inside can be differentiated twice, or forwards: kernels know their first slopes alone, and other forms
    take their place. A decorator too."""
    before = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(before)


def _fastest(kernels: Kernels, side: int, pools: Pools) -> Callable[..., Float[Array, "B features"]]:
    if jax.default_backend() == "cpu":
        return by_tiles if kernels[0].shape[1] < NARROW else by_patches
    small = side == SMALL and all(pools) and all(k.shape[0] <= DEEP * SMALL**2 and k.shape[1] <= WIDE for k in kernels)
    return by_kernels if small and _kernels_fit(kernels[0].dtype) else by_tiles


def _kernels_fit(dtype: Any) -> bool:
    """Are there kernels for numbers of this kind, for this GPU, with the digits and the slopes that are asked for?"""
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))
    tried = jax.default_backend() == "gpu" and capability.startswith(MEASURED)
    precision = getattr(jax.config, "jax_default_matmul_precision", None)  # of this trace, not of the process
    enough = str(precision or "default").lower() in DIGITS
    return tried and enough and dtype in (jnp.float32, jnp.bfloat16) and not _twice.get()


def by_patches(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools
) -> Float[Array, "B features"]:
    images = as_images(inputs, shape)
    for kernel, bias, halved in zip(kernels, biases, pools, strict=True):
        values = product_of(patches_of(images, side, border), kernel)
        images = jax.nn.relu(shifted(pooled(values) if halved else values, bias))
    return images.reshape(images.shape[0], -1)


def by_kernels(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools,
    interpret: bool = False,
) -> Float[Array, "B features"]:  # fmt: skip
    from .kernels import convolved_largest  # here: what it imports is for GPUs, and not on every system

    assert all(pools), "kernels pool"
    images = as_images(inputs, shape)
    for kernel, bias in zip(kernels, biases, strict=True):
        values = convolved_largest(images, kernel, side, border, interpret)
        images = jax.nn.relu(shifted(values, bias))
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
