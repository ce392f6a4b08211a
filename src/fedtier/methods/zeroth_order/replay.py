"""The model rebuilt at a client from the rounds that it has missed, instead of being sent.

The server sends the seeds and the scalars of the W latest rounds. A client keeps the model of its last turn and makes the
server's moves of the rounds since then, in the same order and with the same arithmetic, hence to the same bits. The first
model must be known to all. A client that is more than W rounds behind cannot catch up, and must not reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from .directions import Seed

Move = Callable[[PyTree, Seed, Float[Array, "K P"]], PyTree]  # (x_q, seed of round q, its scalars) -> x_{q+1}


class Ring(NamedTuple):
    """Round q is in row q mod W."""

    seeds: UInt32[Array, "W 2"]
    scalars: Float[Array, "W K P"]

    @classmethod
    def empty(cls, rounds: int, shape: tuple[int, int]) -> Ring:
        return cls(jnp.zeros((rounds, 2), jnp.uint32), jnp.zeros((rounds, *shape)))

    def with_round(self, q: Int[Array, ""], seed: Seed, c: Float[Array, "K P"]) -> Ring:
        row = q % self.seeds.shape[0]
        return Ring(self.seeds.at[row].set(seed), self.scalars.at[row].set(c))


class Client(NamedTuple):
    x: PyTree  # the model at the start of `round` [n]
    round: Int[Array, ""]


def first(x: PyTree) -> Client:
    """A client that knows the first model."""
    return Client(x, jnp.zeros((), jnp.int32))


def rebuilt(client: Client, ring: Ring, now: Int[Array, ""], move: Move) -> tuple[Client, Bool[Array, ""]]:
    """(the client with the model at the start of round `now`, whether the ring reaches back far enough for it)."""
    W = ring.seeds.shape[0]
    start = jnp.maximum(client.round, now - W)
    x = jax.lax.fori_loop(start, now, lambda q, x: move(x, ring.seeds[q % W], ring.scalars[q % W]), client.x)
    return Client(x, now.astype(client.round.dtype)), now - client.round <= W
