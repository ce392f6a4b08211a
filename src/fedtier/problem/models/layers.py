"""The layers of nets for images [B, height, width, channels], in the form that is fast here.

A convolution is written as one product of all patches with the kernel: inside a loop on a CPU that is 5 to 20
times faster than XLA's own convolution, and with one net per client on a GPU twice as fast as its grouped one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...errors import require
from .model import Inputs


def as_images(inputs: Inputs, shape: tuple[int, int, int]) -> Array:
    """Rows of any form as [B, height, width, channels]; `shape` is (channels, height, width)."""
    return jnp.moveaxis(inputs.reshape(inputs.shape[0], *shape), 1, -1)


def check_shape(shape: tuple[int, int, int], least: int) -> None:
    """Refuses what is no image, or too small a one."""
    fits = len(shape) == 3 and shape[0] >= 1 and min(shape[1:]) >= least
    require(fits, "shape", shape, f"must be (channels, height, width) with sides of {least} or more")


def shifted(values: Array, bias: Array | None) -> Array:
    """values + bias along the last axis; as they are where there is none."""
    return values if bias is None else values + bias.reshape((1,) * (values.ndim - 1) + (-1,))


def he_uniform(key: Key[Array, ""], shape: tuple[int, ...], fan: int) -> Array:
    """He's uniform start for ReLU layers with `fan` inputs."""
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) * (6.0 / fan) ** 0.5


def patches_of(images: Float[Array, "B H W C"], side: int = 3, border: int = 1) -> Float[Array, "B h w D"]:
    """The squares of `side` x `side` pixels, with zeros in a border so wide: with 3 and 1, every pixel's neighbourhood.

    Many small squares are gathered in two steps, along the rows and then across them: one step of 25 pieces takes longer,
    on a GPU one of 9 as well.
    """
    height, width = (size + 2 * border - side + 1 for size in images.shape[1:3])
    padded = jnp.pad(images, ((0, 0), (border, border), (border, border), (0, 0)))
    if side <= 3 and jax.default_backend() == "cpu":
        squares = [padded[:, i : i + height, j : j + width] for i in range(side) for j in range(side)]
        return jnp.concatenate(squares, axis=-1)
    along = jnp.concatenate([padded[:, :, j : j + width] for j in range(side)], axis=-1)
    along = jax.lax.optimization_barrier(along)  # else the compiler makes one step of the two
    return jnp.concatenate([along[:, i : i + height] for i in range(side)], axis=-1)


def product_of(patches: Float[Array, "B H W D"], kernel: Float[Array, "D O"]) -> Float[Array, "B H W O"]:
    """patches @ kernel. The kernel is turned first, and kept so, because its slope is then the faster of two products."""
    turned = jax.lax.optimization_barrier(kernel.T)
    flat = jax.lax.dot_general(patches.reshape(-1, patches.shape[-1]), turned, (((1,), (1,)), ((), ())))
    return flat.reshape(*patches.shape[:-1], -1)


def pooled(images: Float[Array, "B H W C"]) -> Float[Array, "B h w C"]:
    """The largest of each 2x2 square; an odd last row or column is left out."""
    rows, height, width, channels = images.shape
    even = images[:, : height // 2 * 2, : width // 2 * 2]
    return largest(even.reshape(rows, height // 2, 2, width // 2, 2, channels), 2, 4)


def largest(squares: Array, above: int, beside: int) -> Array:
    """The largest along two axes of length 2, the first of equals.

    The position of the largest is computed without a gradient, and its value is then selected by the position: the gradient
    is one selection, where that of max would repeat the comparisons.
    """

    def at(i: int, j: int) -> Array:
        return jax.lax.index_in_dim(jax.lax.index_in_dim(fixed, j, beside, keepdims=False), i, above, keepdims=False)

    fixed = jax.lax.stop_gradient(squares)
    a, b, c, d = at(0, 0), at(0, 1), at(1, 0), at(1, 1)
    upper = jnp.maximum(a, b) >= jnp.maximum(c, d)
    where = jnp.where(upper, jnp.where(a >= b, 0, 1), jnp.where(c >= d, 2, 3)).astype(jnp.int8)
    shape = [1] * squares.ndim
    shape[above] = shape[beside] = 2
    places = jnp.arange(4, dtype=jnp.int8).reshape(shape)
    return jnp.sum(jnp.where(jnp.expand_dims(where, (above, beside)) == places, squares, 0), axis=(above, beside))
