"""A model as a pair: its first leaf, which stands before a black box, and all the others, which stand behind it."""

from __future__ import annotations

import jax
from jaxtyping import Array, PyTree


def first(tree: PyTree) -> Array:
    """What stands before."""
    return jax.tree.leaves(tree)[0]


def with_first(tree: PyTree, leaf: Array) -> PyTree:
    """The model with `leaf` before it."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [leaf, *leaves[1:]])
