"""Two groups by complete linkage, traceable: a fixed number of places and a mask."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees


def cosines(deltas: PyTree) -> Float[Array, "M M"]:
    """cos(D_i, D_k) of all pairs of rows; 0 where a row is 0."""
    flat = [a.reshape(a.shape[0], -1) for a in jax.tree.leaves(deltas)]
    products = functools.reduce(jnp.add, [a @ a.T for a in flat])
    lengths = jnp.sqrt(jnp.diagonal(products))
    both = lengths[:, None] * lengths[None]
    return jnp.where(both > 0, products / jnp.where(both > 0, both, 1.0), 0.0)


def bipartition(distance: Float[Array, "M M"], members: Bool[Array, "M"]) -> Bool[Array, "M"]:
    """The members of the second of two groups: not the group of the member with the lowest number.

    Complete linkage: everyone alone at first; the two groups with the smallest largest distance between their members
    become one, until two are left. Of equal pairs the one with the lowest numbers is first.
    """
    places = jnp.arange(members.size)
    pairs = members[:, None] & members[None] & (places[:, None] != places[None])

    def merge(_: ArrayLike, state: tuple[Float[Array, "M M"], Int[Array, "M"]]) -> tuple[Array, Array]:
        d, group = state
        a, b = jnp.divmod(jnp.argmin(d), members.size)  # d is symmetric, so that a < b
        farthest = jnp.maximum(d[a], d[b])
        d = d.at[a].set(farthest).at[:, a].set(farthest).at[b].set(jnp.inf).at[:, b].set(jnp.inf)
        return d, jnp.where(group == b, a, group)

    start = jnp.where(pairs, distance, jnp.inf), places
    _, group = jax.lax.fori_loop(0, jnp.sum(members) - 2, merge, start)
    return members & (group != jnp.argmax(members))


def mean_and_longest(deltas: PyTree, members: Bool[Array, "M"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(|mean of the members' rows|, the length of the longest of them)."""
    lengths = jax.vmap(trees.norm)(deltas)
    return trees.norm(trees.mean_over(members, deltas)), jnp.max(jnp.where(members, lengths, 0.0))
