"""Which replies count: one rule, the same in the compiled and the messages engine, whatever the method.

A reply is lost when it is

    not finite    a number of the reply or of the client's new state is NaN or infinite, or |reply| overflows float32
    too large     |reply| > magnitude * median of |reply| over the WINDOW latest seats, once LEAST of them are known

A lost reply leaves no trace: the client's state stays as it was, `aggregate` sees arrived = False, and it is counted for
its client. `magnitude` = inf switches the second check off. Lengths of replies that were too large enter the window
too: if more than half of the replies grow, that is the new size, and the run does not wait for the old one for ever.

Healthy replies came to at most 285 times that median (100 seeds: five estimators, methods and models, one client a round,
Dirichlet(0.05 to 0.1)), to 3,300 times where the median was of two or three replies: hence LEAST, and 10,000.

The wire (`protocol.validation`) has the same two checks at the server, with `wire.magnitude`, and two differences: it
judges from the first round on, by that round's own replies where it has no others, because a deployment must not let
the first wrong unit pass; and its window holds the replies that counted. A site sees to its own state there.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import trees
from ..errors import require
from ..protocol.validation import WINDOW

MAGNITUDE, LEAST = 1e4, 8


class Replies(NamedTuple):
    """What became of the replies so far; part of a run's state."""

    not_finite: Int[Array, "m"]  # lost replies of each client
    too_large: Int[Array, "m"]
    recent: Float[Array, "W"]  # lengths at the latest seats; 0 where none came, or nothing was said

    @classmethod
    def none(cls, clients: int) -> Replies:
        return cls(jnp.zeros(clients, jnp.int32), jnp.zeros(clients, jnp.int32), jnp.zeros(WINDOW, jnp.float32))

    def words(self) -> list[str]:
        """A line for each client that has lost a reply, for people; of one seed."""
        kinds = {"not finite": np.asarray(self.not_finite), "too large": np.asarray(self.too_large)}
        lines = []
        for client in np.flatnonzero(sum(kinds.values())).tolist():
            why = ", ".join(f"{count[client]} {kind}" for kind, count in kinds.items() if count[client])
            lines.append(f"client {client}: {sum(int(count[client]) for count in kinds.values())} replies lost ({why})")
        return lines


def check_magnitude(magnitude: float) -> None:
    require(magnitude > 1, "magnitude", magnitude, "must be above 1", "inf switches the check off")


def length(client: PyTree, up: PyTree) -> Float[Array, ""]:
    """|up| as one vector, infinite where it or the client's new state is not finite."""
    parts = [jnp.ravel(a) for a in jax.tree.leaves(up) if jnp.issubdtype(a.dtype, jnp.inexact)]
    wide = [a.astype(jnp.promote_types(a.dtype, jnp.float32)) for a in parts]
    square = sum((jnp.vdot(a, a).real for a in wide), start=jnp.zeros(()))
    found = jnp.sqrt(square).astype(jnp.float32)
    return jnp.where(jnp.isfinite(found) & trees.all_finite(client), found, jnp.inf)


def judged(
    replies: Replies,
    lengths: Float[Array, "S"],
    ids: Int[Array, "S"],
    came: Bool[Array, "S"],
    magnitude: float | Float[Array, ""],
) -> tuple[Bool[Array, "S"], Replies]:
    """(which of the replies that `came` count, the record with this round in it); `lengths` as `length` gives them."""
    finite = jnp.isfinite(lengths)
    window = jnp.concatenate([replies.recent, jnp.where(came & finite, lengths, 0.0)])[-WINDOW:]
    known = jnp.where(jnp.sum(replies.recent > 0) >= LEAST, replies.recent, window)
    many = jnp.sum(known > 0)
    shorter = jnp.sum((known > 0)[None] & (magnitude * known[None] < lengths[:, None]), axis=1)
    large = came & finite & (many >= LEAST) & (shorter >= (many + 1) // 2)  # the lower median is among the shorter ones
    lost = came & ~finite
    return came & finite & ~large, Replies(
        replies.not_finite.at[ids].add(lost.astype(jnp.int32)), replies.too_large.at[ids].add(large.astype(jnp.int32)), window
    )
