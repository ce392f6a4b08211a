"""What the clustered methods have in common: stacks of models, averages by group, a client's own loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import keys, trees
from ...federation import View, mean_over_rows
from ...keys import Tag
from ...problem import Loss


def copies(x: PyTree, count: int) -> PyTree:
    """x, `count` times, as one tree with a leading axis."""
    return trees.map(lambda a: jnp.broadcast_to(a[None], (count, *a.shape)), x)


def apart(x: PyTree, count: int, spread: float | Float[Array, ""], seed: int) -> PyTree:
    """[count, n]: x, and after it x + spread z, z standard normal at the address (seed, before round 0, INIT, j, leaf)."""

    def one(j: Int[Array, ""]) -> PyTree:
        z = keys.normal(keys.at(keys.root(seed), keys.BEFORE_ROUND_0, Tag.INIT, j), x)
        return trees.where(j > 0, trees.axpy(spread, z, x), x)

    return jax.vmap(one)(jnp.arange(count))


def means_by_group(
    group: Int[Array, "S"], arrived: Bool[Array, "S"], deltas: PyTree, weights: Float[Array, "S"], count: int
) -> PyTree:
    """[count, n]: of each group the weighted mean of the deltas of its replies that arrived; 0 where there is none."""
    return jax.vmap(lambda j: trees.mean_over(arrived & (group == j), deltas, weights))(jnp.arange(count))


def own_loss(loss: Loss, x: PyTree, view: View) -> Float[Array, ""]:
    """The mean loss of x over all rows of `view`; 0 where there are none."""

    def each(rows: PyTree) -> Float[Array, "B"]:
        return jax.vmap(lambda row: loss(x, trees.alone(row)))(rows)

    return jnp.where(view.size > 0, mean_over_rows(each, view), 0.0)


def fits_best(loss: Loss, models: PyTree, view: View) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """(which of the models [K, n] has the least loss over all rows of `view`, that loss); the first of equals."""
    losses = jax.vmap(lambda one: own_loss(loss, one, view))(models)
    best = jnp.argmin(losses)
    return best.astype(jnp.int32), losses[best]
