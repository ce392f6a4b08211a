"""Convolutions by tiles: one product gives a square of neighbouring pixels, not one pixel.

A kernel of 5x5 pixels with 6 outputs, as LeNet's first, makes a poor product: six columns, and every pixel is copied into 25
patches. A tile of 4x4 outputs reads a window of 8x8 pixels; as a matrix from windows to tiles the kernel has 96 columns, and a
pixel is copied into four windows. More than half of the matrix is zeros, and the step is faster for it (docs/speed.md).
Images stay cut into tiles from layer to layer: pooling halves a tile's side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .layers import largest, pooled

SIDES = (4, 2, 1)  # of the first layer's tiles


class Layer(NamedTuple):
    """A convolution over images in tiles."""

    side: int  # of a patch
    border: int  # of zeros around the image
    tile: int  # side of a tile, before and after the convolution
    height: int  # tiles of what comes out
    width: int


def plan(shape: tuple[int, int, int], side: int, border: int, pools: Sequence[bool]) -> list[Layer]:
    """The layers for images of this shape: the largest tiles that divide what comes out of every layer."""
    for first in SIDES:
        tile, (_, height, width), layers = first, shape, []
        for halved in pools:
            height, width = (size + 2 * border - side + 1 for size in (height, width))
            if height % tile or width % tile:
                break
            layers.append(Layer(side, border, tile, height // tile, width // tile))
            if halved:
                height, width, tile = height // 2, width // 2, max(tile // 2, 1)
        else:
            return layers
    raise AssertionError("tiles of one pixel fit any image")


def cut(images: Float[Array, "B H W C"], tile: int) -> Float[Array, "B h w tile tile C"]:
    """The image in tiles, with zeros behind its last pixels where they do not fill one."""
    rows, height, width, channels = images.shape
    down, across = -(-height // tile), -(-width // tile)
    whole = jnp.pad(images, ((0, 0), (0, down * tile - height), (0, across * tile - width), (0, 0)))
    return jnp.swapaxes(whole.reshape(rows, down, tile, across, tile, channels), 2, 3)


def joined(tiles: Float[Array, "B h w tile tile C"]) -> Float[Array, "B H W C"]:
    """The image again."""
    rows, down, across, tile, _, channels = tiles.shape
    return jnp.swapaxes(tiles, 2, 3).reshape(rows, down * tile, across * tile, channels)


def convolved(
    tiles: Float[Array, "B h w tile tile C"], kernel: Float[Array, "patch O"], layer: Layer
) -> Float[Array, "B h2 w2 tile tile O"]:
    windows = _windows(tiles, 2, layer.width, layer)
    windows = jax.lax.optimization_barrier(windows)  # else the compiler makes one step of the two
    windows = _windows(windows, 1, layer.height, layer)
    rows, out = windows.shape[0], kernel.shape[1]
    flat = windows.reshape(rows * layer.height * layer.width, -1) @ _from_windows(kernel, layer)
    return flat.reshape(rows, layer.height, layer.width, layer.tile, layer.tile, out)


def _windows(tiles: Array, axis: int, count: int, layer: Layer) -> Array:
    """Along one direction, axis 1 or 2, what each of `count` tiles of the output reads: parts of tiles beside each other."""
    width, inside = layer.tile + layer.side - 1, axis + 2
    first, last = -layer.border // layer.tile, (width - 1 - layer.border) // layer.tile
    margin = [(0, 0)] * tiles.ndim
    margin[axis] = (-first, max(0, count + last - tiles.shape[axis]))
    padded = jnp.pad(tiles, margin)
    parts = []
    for k in range(first, last + 1):
        begin, end = max(0, -layer.border - k * layer.tile), min(layer.tile, width - layer.border - k * layer.tile)
        beside = jax.lax.slice_in_dim(padded, k - first, k - first + count, axis=axis)
        parts.append(jax.lax.slice_in_dim(beside, begin, end, axis=inside))
    return jnp.concatenate(parts, axis=inside)


def _from_windows(kernel: Float[Array, "patch O"], layer: Layer) -> Float[Array, "window tiled"]:
    """The kernel as the matrix from a window to a tile: a copy for each of the tile's pixels, moved by its place."""
    side, tile = layer.side, layer.tile
    patch = kernel.reshape(side, side, -1, kernel.shape[1])
    none = (0, 0)
    rows = jnp.stack([jnp.pad(patch, ((i, tile - 1 - i), none, none, none)) for i in range(tile)])
    both = jnp.stack([jnp.pad(rows, (none, none, (j, tile - 1 - j), none, none)) for j in range(tile)], axis=1)
    window = (tile + side - 1) ** 2 * patch.shape[2]
    return jnp.transpose(both, (2, 3, 4, 0, 1, 5)).reshape(window, tile**2 * kernel.shape[1])


def halved(tiles: Float[Array, "B h w tile tile C"]) -> Float[Array, "B h2 w2 half half C"]:
    """The largest of each 2x2 square: tiles of half the side, or fewer of one pixel, without an odd last row or column."""
    rows, down, across, tile, _, channels = tiles.shape
    if tile == 1:
        return pooled(tiles[:, :, :, 0, 0])[:, :, :, None, None]
    return largest(tiles.reshape(rows, down, across, tile // 2, 2, tile // 2, 2, channels), 4, 6)
