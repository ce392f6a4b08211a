"""Local steps whose gradients are clipped row by row and get noise: DP-SGD.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep Learning with Differential Privacy", CCS 2016,
https://arxiv.org/abs/1607.00133

    g <- (sum over the rows drawn of g_j min(1, C/|g_j|) + N(0, sigma^2 C^2 I)) / B

Each of a client's N_i rows is drawn by its own coin, B/N_i, as the bound asks: minibatches differ in size. All rows that a
client may have are computed and those not drawn left out, so a step costs as much as the largest client's rows. sigma is each
client's own, by its number of rows: the fewer there are, the more often each is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..federation import View
from ..federation.shards import rows_at
from ..keys import Tag


class RowNoise(NamedTuple):
    """What is done to every gradient."""

    clip: float  # C
    by_rows: tuple[tuple[int, float], ...]  # sigma of the clients with at least so many rows, from the fewest on
    most: int  # rows of the largest client

    def noise(self, rows: ArrayLike) -> Float[Array, ""]:
        """sigma of a client with so many rows; with fewer than all that are known, that of the fewest."""
        least, sigmas = (jnp.asarray(column) for column in zip(*self.by_rows, strict=True))
        return sigmas[jnp.maximum(jnp.searchsorted(least, jnp.asarray(rows), side="right") - 1, 0)]


def noisy_gradient(
    gradient: Callable[[PyTree, PyTree], PyTree], y: PyTree, view: View, key: Key[Array, ""], batch: int, how: RowNoise
) -> PyTree:
    """The gradient of one step: see the module."""
    position = jnp.arange(how.most)
    inside = position < view.size
    chance = batch / jnp.maximum(view.size, 1)
    drawn = inside & (jax.random.uniform(keys.at(key, Tag.SOLVE), (how.most,)) < chance)
    rows = rows_at(view, view.index[view.start + jnp.where(inside, position, 0)])

    def clipped(row: PyTree) -> PyTree:
        g = gradient(y, trees.alone(row))
        length = trees.norm(g)
        sound = jnp.isfinite(length)
        return trees.where(sound, trees.scale(jnp.minimum(1.0, how.clip / jnp.maximum(length, 1e-30)), g), trees.zeros_like(g))

    total = trees.weighted_sum(drawn.astype(jnp.float32), jax.vmap(clipped)(rows))
    noise, length = keys.normal(keys.at(key, Tag.NOISE), total), how.noise(view.size) * how.clip
    return trees.scale(1.0 / batch, trees.axpy(length, noise, total))
