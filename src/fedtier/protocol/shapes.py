"""The shapes of a method's messages, which letters are checked against and their bytes predicted from."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from .. import keys
from ..federation import View, shown_rows
from ..methods.method import Method, Opening, turn_of
from . import letters


class Shapes(NamedTuple):
    """The shapes of the messages of one round, which tell how many bytes they have."""

    shared: PyTree
    own: PyTree
    key: Key[Array, ""]  # of a turn
    up: PyTree
    offer: PyTree | None = None  # for a personal model, beside the rounds; None: nothing

    def down_bytes(self) -> int:
        """Of one letter to one site."""
        return letters.HEAD.size + letters.body_size(letters.Private(self.own, self.key)) + letters.body_size(self.shared)

    def up_bytes(self) -> int:
        """Of one reply."""
        return letters.HEAD.size + letters.body_size(self.up)

    @property
    def silent(self) -> bool:
        """Does the method send nothing at all?"""
        return not jax.tree.leaves((self.shared, self.up))


def message_shapes(method: Method, server: PyTree, client: PyTree, view: View, spec: PyTree, clients: int) -> Shapes:
    """From states, one party's view and one client's spec, or their shapes; nothing is computed."""

    def messages(server: PyTree, client: PyTree, view: View, spec: PyTree, key: Key[Array, ""]) -> Shapes:
        zero = jnp.asarray(0, jnp.int32)
        opening = Opening(zero, clients, view, keys.at(key, zero, 0))
        turn = turn_of(zero, zero, zero, key)
        shared, own = method.broadcast(server, opening), method.address(server, turn)
        seen = view._replace(shown=shown_rows(view, method.shows)) if method.shows else view
        _, up = method.local(client, shared, own, seen, spec, turn)
        offer = None if method.offer is None else method.offer(server, turn)
        return Shapes(shared, own, turn.key, up, offer)

    return jax.eval_shape(messages, server, client, view, spec, jax.eval_shape(lambda: keys.root(0)))
