"""The latest broadcasts of a method with a buffer: clients work on the one that was there when they began.

The broadcast of round r lies at place r mod K. With K above the largest staleness of the plan it is there as long as
somebody works on it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .. import trees
from ..errors import FedtierError
from .method import Method, Opening


def blank(method: Method, server: PyTree, opening: Opening, history: int) -> PyTree:
    """The ring before round 0, leaves [K, ...] with K = `history`."""
    shapes = jax.eval_shape(lambda server: method.broadcast(server, opening), server)
    return trees.map(lambda s: jnp.zeros((history, *s.shape), s.dtype), shapes)


def remembered(ring: PyTree, shared: PyTree, number: Any) -> PyTree:
    """The ring with the broadcast of round `number` in place of the oldest."""
    return trees.map(lambda all, one: all.at[number % all.shape[0]].set(one), ring, shared)


def recalled(ring: PyTree, number: Any) -> PyTree:
    """The broadcast of round `number`."""
    return trees.map(lambda all: all[number % all.shape[0]], ring)


def length(ring: PyTree) -> int:
    """K, the number of broadcasts that the ring holds."""
    leaves = jax.tree.leaves(ring)
    return leaves[0].shape[0] if leaves else 0


def refuse_own_messages(method: Method, owns: PyTree) -> None:
    """A message of one client's own would be made when its reply counts, not when it begins."""
    if method.buffer and jax.tree.leaves(owns):
        rule = "has messages of one client's own (address), which a method with a buffer cannot have"
        raise FedtierError("method", method.name, rule, "put them into the broadcast, or draw them from turn.key")
