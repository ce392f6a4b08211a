"""Who is in which cluster of CFL, and when one splits in two: what its server knows and decides."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees
from ..averaging.fedavg import Up
from ..method import Round
from .groups import copies
from .linkage import bipartition, cosines, mean_and_longest


class Server(NamedTuple):
    x: PyTree  # x_c [K, n]
    used: Int[Array, ""]  # clusters so far
    cluster: Int[Array, "M"]  # c of client i
    heard: Bool[Array, "M"]  # has client i sent a D_i?
    delta: PyTree  # its latest D_i [M, n]


class Rule(NamedTuple):
    """When a cluster splits."""

    clusters: int  # at most so many
    mean: float | Float[Array, ""]  # e1
    longest: float | Float[Array, ""]  # e2


def together(x: PyTree, clusters: int, members: int) -> Server:
    """All clients in one cluster, with room for `clusters` models and `members` clients."""
    places = jnp.zeros(members, jnp.int32)
    return Server(copies(x, clusters), jnp.ones((), jnp.int32), places, places > 0, trees.zeros_like(copies(x, members)))


def largest(server: Server) -> Int[Array, ""]:
    """The number of the cluster with the most clients that were heard."""
    clusters = jax.tree.leaves(server.x)[0].shape[0]
    return jnp.argmax(jnp.bincount(server.cluster, weights=server.heard.astype(jnp.int32), length=clusters))


def remembered(server: Server, ups: Up, round: Round) -> tuple[Server, Bool[Array, "M"]]:
    """The server with the moves of this round, and whose they are. H_i = 0 says nothing."""
    said, members = round.arrived & (jax.vmap(trees.norm)(ups.delta) > 0), server.heard.shape[0]
    place = jnp.where(said, round.ids, members)
    delta = trees.map(lambda all, some: all.at[place].set(some, mode="drop"), server.delta, ups.delta)
    fresh = jnp.zeros(members, bool).at[place].set(True, mode="drop")
    return server._replace(heard=server.heard | fresh, delta=delta), fresh


def considered(rule: Rule, fresh: Bool[Array, "M"], c: ArrayLike, server: Server) -> Server:
    """Cluster c split in two, if it is time."""
    inside = server.heard & (server.cluster == c)
    mean, longest = mean_and_longest(server.delta, inside)
    disagree = (mean < rule.mean) & (longest > rule.longest) & (jnp.sum(inside) > 1)
    splits = disagree & jnp.any(inside & fresh) & (server.used < rule.clusters)

    def split(server: Server) -> Server:
        leave = bipartition(-cosines(server.delta), inside)
        x = trees.map(lambda a: a.at[server.used].set(a[c]), server.x)
        return server._replace(x=x, used=server.used + 1, cluster=jnp.where(leave, server.used, server.cluster))

    return jax.lax.cond(splits, split, lambda server: server, server)
