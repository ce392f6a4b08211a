"""Randomised smoothing on the unit sphere, from whose gradient the two-point estimate comes.

    f_eta(x) = E f(x + eta u), u uniform in the unit ball
    grad f_eta(x) = E n/(2 eta) (f(x + eta v) - f(x - eta v)) v, v uniform on the unit sphere

The estimate needs two values of f and no derivative; its second moment grows like n (see `fedtier.theory`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from .. import keys, trees

FLOAT32_FLOOR = 0.01  # below this smoothing, rounding of x +- eta v costs more than 1 % of the estimate in float32


def sphere(key: Key[Array, ""], like: PyTree) -> PyTree:
    """v uniform on the unit sphere of R^n, shaped like the model: a normal draw per leaf, normalised as one vector."""
    leaves, structure = jax.tree.flatten(like)
    draws = [jax.random.normal(keys.at(key, k), leaf.shape, leaf.dtype) for k, leaf in enumerate(leaves)]
    v = jax.tree.unflatten(structure, draws)
    return trees.scale(1.0 / trees.norm(v), v)


def spheres(key: Key[Array, ""], like: PyTree, directions: int) -> PyTree:
    """K independent directions, leading axis K."""
    return jax.vmap(lambda k: sphere(keys.at(key, k), like))(jnp.arange(directions))
