"""Verbs over pytrees: a model is a tree of arrays and stays one.

Scalars are cast to each leaf's dtype, so that a float64 step size never widens a float32 model.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree

map = jax.tree.map


def axpy(alpha: ArrayLike, x: PyTree, y: PyTree) -> PyTree:
    """alpha x + y."""
    return map(lambda a, b: b + jnp.asarray(alpha, b.dtype) * a, x, y)


def add(x: PyTree, y: PyTree) -> PyTree:
    """x + y."""
    return map(jnp.add, x, y)


def sub(x: PyTree, y: PyTree) -> PyTree:
    """x - y."""
    return map(jnp.subtract, x, y)


def scale(alpha: ArrayLike, x: PyTree) -> PyTree:
    """alpha x."""
    return map(lambda a: jnp.asarray(alpha, a.dtype) * a, x)


def zeros_like(x: PyTree) -> PyTree:
    """0, shaped like x."""
    return map(jnp.zeros_like, x)


def dot(x: PyTree, y: PyTree) -> Float[Array, ""]:
    """<x, y>, leaf by leaf in the tree's order; 0 for a tree without leaves.

    On a GPU as a sum of products: a product of two vectors would be rounded there as other products are
    (`compilation.precise`), and JAX 0.11 cannot compile one that is scaled by a constant inside two vmaps.
    """
    product = jnp.vdot if jax.default_backend() == "cpu" else _sum_of_products
    products = jax.tree.leaves(map(product, x, y))
    return functools.reduce(jnp.add, products) if products else jnp.zeros(())


def _sum_of_products(a: Array, b: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.conj(a) * b)


def norm(x: PyTree) -> Float[Array, ""]:
    """|x|, of the whole tree as one vector."""
    return jnp.sqrt(dot(x, x))


def size(x: PyTree) -> int:
    """n, the number of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(x))


def where(condition: Bool[Array, ""], x: PyTree, y: PyTree) -> PyTree:
    """x where the condition holds, else y; one condition for the whole tree."""
    return map(lambda a, b: jnp.where(condition, a, b), x, y)


def take(x: PyTree, index: ArrayLike | slice) -> PyTree:
    """Row (or rows) `index` of every leaf."""
    return map(lambda a: a[index], x)


def alone(row: PyTree) -> PyTree:
    """A row as a batch of one."""
    return map(lambda a: a[None], row)


def stack(xs: list[PyTree]) -> PyTree:
    """The trees as one, with a new leading axis."""
    return map(lambda *leaves: jnp.stack(leaves), *xs)


def weighted_sum(weights: Float[Array, "S"], xs: PyTree) -> PyTree:
    """sum_s w_s x_s over the leading axis. A row of weight 0 is left out whatever it holds, NaN included."""

    def leaf(a: Array) -> Array:
        w = weights.astype(a.dtype).reshape(-1, *[1] * (a.ndim - 1))
        return jnp.sum(jnp.where(w == 0, 0, w * a), axis=0)

    return map(leaf, xs)


def mean_over(arrived: Bool[Array, "S"], xs: PyTree, weights: ArrayLike = 1.0) -> PyTree:
    """The weighted mean of the rows that arrived; zeros when none did."""
    w = jnp.where(arrived, weights, 0.0)
    total = jnp.sum(w)
    return weighted_sum(w / jnp.where(total > 0, total, 1.0), xs)


def all_finite(x: PyTree) -> Bool[Array, ""]:
    """False as soon as one number is NaN or infinite. Integer leaves are always finite."""
    parts = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(x) if jnp.issubdtype(a.dtype, jnp.inexact)]
    return jnp.all(jnp.stack(parts)) if parts else jnp.asarray(True)


def names(x: PyTree) -> list[str]:
    """One readable name per leaf, in the order of the leaves: `layers.0.weight`. A bare array is called `value`."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(x)]
    return [".".join(_part(step) for step in path) or "value" for path in paths]


def _part(step: object) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(step, attribute):
            return str(getattr(step, attribute))
    return str(step)
