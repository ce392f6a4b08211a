"""Randomised smoothing on the unit sphere, from whose gradient the two-point estimate comes.

    f_eta(x) = E f(x + eta u), u uniform in the unit ball
    grad f_eta(x) = E n/(2 eta) (f(x + eta v) - f(x - eta v)) v, v uniform on the unit sphere

The estimate needs two values of f and no derivative; its second moment grows like n (see `fedtier.theory`).
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from ... import keys, trees
from ...errors import FedtierWarning, positive, require, whole

FLOAT32_FLOOR = 0.01  # below this smoothing, rounding of x +- eta v costs more than 1 % of the estimate in float32


def check_probes(smoothing: float, directions: int) -> None:
    """Refuses what is no smoothing and no number of directions; warns where float32 cannot resolve x +- eta v."""
    positive("smoothing", smoothing)
    whole("directions", directions)
    if smoothing < FLOAT32_FLOOR and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        words = f"smoothing = {smoothing}: float32 rounds x ± eta v; use >= {FLOAT32_FLOOR}"
        warnings.warn(words, FedtierWarning, stacklevel=4)


def sphere(key: Key[Array, ""], like: PyTree) -> PyTree:
    """v uniform on the unit sphere of R^n, shaped like the model: a normal draw, normalised as one vector."""
    v = keys.normal(key, like)
    return trees.scale(1.0 / trees.norm(v), v)


def spheres(key: Key[Array, ""], like: PyTree, directions: int) -> PyTree:
    """K independent directions, leading axis K."""
    return jax.vmap(lambda k: sphere(keys.at(key, k), like))(jnp.arange(directions))


def orthonormal(key: Key[Array, ""], like: PyTree, directions: int) -> PyTree:
    """K orthonormal directions, each uniform on the sphere: Gram-Schmidt on independent draws. Needs K <= n."""
    n = trees.size(like)
    require(directions <= n, "directions", directions, f"there are only {n} orthogonal directions", "use fewer")
    return gram_schmidt(spheres(key, like, directions), directions)


def gram_schmidt(v: PyTree, count: int) -> PyTree:
    """Orthonormal v, row by row, in order; twice over, because once is not enough in float32. Loops, so that many directions
    take no longer to compile than two."""

    def remove(k: Int[Array, ""], rows: PyTree) -> PyTree:
        def without(j: Int[Array, ""], row: PyTree) -> PyTree:
            before = trees.take(rows, j)
            return trees.axpy(-trees.dot(before, row), before, row)

        row = trees.take(rows, k)
        for _ in range(2):
            row = unit(jax.lax.fori_loop(0, k, without, row))
        return trees.map(lambda all, one: all.at[k].set(one), rows, row)

    return jax.lax.fori_loop(0, count, remove, v)


def unit(x: PyTree) -> PyTree:
    """x/|x|, and 0 where x is 0."""
    length = trees.norm(x)
    return trees.scale(1.0 / jnp.where(length > 0, length, 1.0), x)
