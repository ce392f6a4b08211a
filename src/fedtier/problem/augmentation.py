"""Other images that show the same: what a training step may see in place of the stored rows."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, Num

from .. import keys
from ..errors import require, whole
from .bilevel import Rows

BORDER = 4  # pixels that an image is shifted by at most, as is usual for pictures of 32 x 32
Augment = Callable[[Rows, Key[Array, ""]], Rows]  # (a batch, key) -> a batch with the same labels


def crop_and_flip(shape: tuple[int, ...], border: int = BORDER) -> Augment:
    """For images of `shape` (channels, height, width): each is continued by `border` pixels that mirror its edge, a window of
    the old size is cut out of it at random, and every second one, at random, is turned left to right."""
    whole("border", border)
    fits = len(shape) == 3 and min(shape[1:]) > border
    require(fits, "shape", shape, f"must be images (channels, height, width) with sides of more than {border}")
    places = 2 * border + 1

    def other(image: Num[Array, "C tall wide"], number: Int[Array, ""]) -> Num[Array, "C H W"]:
        down, right, turned = number // (2 * places), number // 2 % places, number % 2
        window = jax.lax.dynamic_slice(image, (jnp.zeros_like(down), down, right), shape)
        return jnp.where(turned == 1, window[:, :, ::-1], window)

    def augment(rows: Rows, key: Key[Array, ""]) -> Rows:
        count = rows.inputs.shape[0]
        images = jnp.pad(rows.inputs.reshape(count, *shape), ((0, 0), (0, 0), (border, border), (border, border)), "reflect")
        inputs = jax.vmap(other)(images, keys.below(key, 2 * places**2, count))
        return rows._replace(inputs=inputs.reshape(rows.inputs.shape))

    return augment
