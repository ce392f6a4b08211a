"""A model that nobody chooses any more begins anew, as k-means moves an empty centre to the point that fits worst."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees


def fits_worst(losses: Float[Array, "S"], said: Bool[Array, "S"], ids: Int[Array, "S"]) -> Int[Array, ""]:
    """The place of the reply with the largest loss; of equals that of the client with the lowest number."""
    loss = jnp.where(said, losses, -jnp.inf)
    return jnp.argmin(jnp.where(loss == jnp.max(loss), ids, jnp.iinfo(jnp.int32).max))


def restarted(
    x: PyTree, idle: Int[Array, "K"], end: PyTree, heard: Bool[Array, ""], limit: int
) -> tuple[PyTree, Int[Array, "K"]]:
    """(the models [K, n], their idle replies) after the model that has been idle longest, if for `limit` replies or more,
    has restarted at `end`; as they were where no reply was `heard`."""
    dead = jnp.argmax(idle)
    restarts = heard & (idle[dead] >= limit)
    moved = trees.map(lambda all, one: jnp.where(restarts, all.at[dead].set(one), all), x, end)
    return moved, jnp.where(restarts, idle.at[dead].set(0), idle)
