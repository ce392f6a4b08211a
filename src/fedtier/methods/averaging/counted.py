"""Replies that say how many steps a client has made: for servers with a memory, which must stay where nobody made one."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from ...federation import View
from ..method import ClientSpec, Contribution, Method, Round, Sums, Turn
from ..summed import known_sums
from .fedavg import Up


class Counted(NamedTuple):
    delta: PyTree  # y_i - x_r [n]
    steps: Int[Array, ""]  # H_i

    def moved(self, round: Round) -> Bool[Array, ""]:
        """Of the replies of a round: has one arrived whose client made a step? A mean of 0 does not tell."""
        return jnp.any(round.arrived & (self.steps > 0))


def counted(base: Method, name: str) -> Method:
    """A method such as FedAvg under another name, with replies that are `Counted`."""

    def at_client(client: tuple, shared: PyTree, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Counted]:
        client, up = base.local(client, shared, own, view, spec, turn)
        return client, Counted(up.delta, turn.steps)

    def share(up: Counted, spec: ClientSpec) -> Contribution:
        return sums.share(Up(up.delta), spec)._replace(moved=(up.steps > 0).astype(jnp.float32))

    sums = known_sums(base)
    return base._replace(name=name, local=at_client, sums=Sums(share, sums.conclude))
