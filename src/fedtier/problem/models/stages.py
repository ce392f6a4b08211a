"""What the nets without skips begin with: convolution, 2x2 pooling in most, intercept and ReLU, once for each kernel.

Images are kept as [B, height, width, channels] on a CPU and as [channels, B, height, width] on a GPU, where pieces are put
together by whole planes: LeNet's step there takes 0.9 instead of 2.0 ms, and compiles in a third of the time (docs/speed.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .layers import as_images, patches_of, pooled, product_of, shifted
from .model import Inputs

Kernels = Sequence[Float[Array, "_ _"]]  # [patch, out]: no two have one size
Biases = Sequence[Float[Array, "_"] | None]
Pools = Sequence[bool]  # after which convolutions there is pooling


def stages(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], *, side: int, border: int,
    pools: Pools | None = None,
) -> Float[Array, "B features"]:  # fmt: skip
    """The numbers of each row after all stages, place by place. Pooling, in the stages that `pools` says or in all, comes
    before bias and ReLU: the same, for a quarter of the work."""
    form = channels_last if jax.default_backend() == "cpu" else channels_first
    return form(kernels, biases, inputs, shape, side, border, pools or (True,) * len(kernels))


def channels_last(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools
) -> Float[Array, "B features"]:
    images = as_images(inputs, shape)
    for kernel, bias, halved in zip(kernels, biases, pools, strict=True):
        values = product_of(patches_of(images, side, border), kernel)
        images = jax.nn.relu(shifted(pooled(values) if halved else values, bias))
    return images.reshape(images.shape[0], -1)


def channels_first(
    kernels: Kernels, biases: Biases, inputs: Inputs, shape: tuple[int, int, int], side: int, border: int, pools: Pools
) -> Float[Array, "B features"]:
    images = jnp.moveaxis(inputs.reshape(inputs.shape[0], *shape), 1, 0)
    for kernel, bias, halved in zip(kernels, biases, pools, strict=True):
        planes = _planes(images, side, border)
        flat = jax.lax.dot_general(kernel, planes.reshape(planes.shape[0], -1), (((0,), (0,)), ((), ())))
        small = flat.reshape(-1, *planes.shape[2:], 1)
        small = pooled(small) if halved else small
        values = small.reshape(kernel.shape[1], planes.shape[1], *small.shape[1:3])
        images = jax.nn.relu(values if bias is None else values + bias[:, None, None, None])
    return jnp.moveaxis(images, 0, -1).reshape(images.shape[1], -1)


def _planes(images: Float[Array, "C B H W"], side: int, border: int) -> Float[Array, "D B h w"]:
    """`layers.patches_of` in this form: the numbers of a patch along the first axis, in the same order."""
    height, width = (size + 2 * border - side + 1 for size in images.shape[2:])
    padded = jnp.pad(images, ((0, 0), (0, 0), (border, border), (border, border)))
    along = jnp.concatenate([padded[..., j : j + width] for j in range(side)], axis=0)
    return jnp.concatenate([along[:, :, i : i + height] for i in range(side)], axis=0)
