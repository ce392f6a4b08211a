"""Random directions that every party draws for itself from one seed, so that no direction is ever sent.

Both kinds have E z z^T = I: (1/P) sum_p <g, z_p> z_p then is g on average. Its squared error is |g|^2 (n + 1)/P for normal
directions; for orthogonal ones it is |g|^2 (n/P - 1), and nothing at all with P = n.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree, UInt32

from ... import keys, trees
from ..two_levels.smoothing import orthonormal

PROBES = ("normal", "orthogonal")

Directions = Callable[[ArrayLike], PyTree]  # p -> z_p
Seed = UInt32[Array, "2"]


def directions(kind: str, key: Key[Array, ""], like: PyTree, count: int) -> Directions:
    """z_0 .. z_{count - 1}, trees like the model. Normal ones are drawn when they are asked for, one at a time, and take no
    memory; orthogonal ones are drawn together, scaled by sqrt(n), and take `count` models."""
    if kind == "normal":
        return lambda p: keys.normal(keys.at(key, p), like)
    rows = trees.scale(float(trees.size(like)) ** 0.5, orthonormal(key, like, count))
    return lambda p: trees.take(rows, p)


def mean_slope(value: Callable[[Array], Array], z: Directions, like: Array, count: int, mu: float | Float[Array, ""]) -> Array:
    """The mean over the directions of z (value(mu z) - value(-mu z))/2mu: an estimate of the gradient of `value` at 0."""

    def along(p: ArrayLike, g: Array) -> Array:
        return g + ((value(mu * z(p)) - value(-mu * z(p))) / (2.0 * mu * count)).astype(g.dtype) * z(p)

    return jax.lax.fori_loop(0, count, along, jnp.zeros_like(like))


def seed_of(key: Key[Array, ""]) -> Seed:
    """The key as two numbers, which can be sent and kept."""
    return jax.random.key_data(key)


def key_of(seed: Seed) -> Key[Array, ""]:
    """The key that a seed stands for."""
    return jax.random.wrap_key_data(jnp.asarray(seed), impl="threefry2x32")
