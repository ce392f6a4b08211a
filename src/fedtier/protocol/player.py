"""One run as a site plays it, and what a letter of the server is for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from .. import trees
from ..errors import require
from ..methods.method import Turn
from . import letters
from .letters import Head, Private, Scores
from .secure.at_site import Masked, shared_like
from .secure.messages import MaskedShared

Keep = Callable[[Path, Turn, PyTree | None, PyTree], None]  # (the run's folder, turn, x, the personal model)


class Player(NamedTuple):
    """One run as a site plays it. The shapes are what letters are checked against."""

    x: PyTree  # shapes of the model
    shared: PyTree  # shapes of the method's shared message
    own: PyTree
    rows: int
    held: int
    init: Callable[[PyTree], PyTree]  # (x_0) -> the client's first state
    play: Callable[..., tuple[PyTree, PyTree]]  # (state, shared, own, turn, weight) -> (state, up)
    score: Callable[..., tuple[Scores, PyTree]] | None = None  # (state, x, turn, weight) -> (scores, the personal model)
    keep: Keep | None = None  # writes both models to the site's own disk, for its own use
    offer: PyTree | None = None  # shapes of what the method offers for a personal model; None: nothing
    stale: bool = False  # of a method with a buffer: an answer counts some rounds after its own
    shown: PyTree = ()  # shapes of the rows that the server shows with its hello
    seat: Callable[[PyTree, Path | None], Player] | None = None  # (these rows, the run's folder) -> the player that has them
    masked: Masked | None = None  # how its replies are masked, where they are
    guarded: bool = False  # under privacy: one answer a round, no scores, and draws that the server cannot repeat
    paid: tuple[int, ...] | None = None  # steps of each round that the budget of its rows has; None: it has no such budget


Prepare = Callable[[str, int], Player]  # (the brief, the client's number) -> what to play


def seated(player: Player, shown: PyTree, place: Path | None) -> Player:
    """The player with the rows that the server shows."""
    return player if player.seat is None else player.seat(shown, place)


def check_paid(head: Head, player: Player) -> None:
    """Refuses steps that the budget of the site's rows does not pay for, whoever asks."""
    if player.paid is not None:
        most = player.paid[head.round] if 0 <= head.round < len(player.paid) else 0
        rule = f"this site's budget of privacy pays for {most} in round {head.round}"
        require(head.steps <= most, "steps", head.steps, rule)


def read_round(own: bytes, shared: bytes, player: Player) -> tuple[Private, PyTree, MaskedShared | None]:
    """(what is this site's own, what all are told, the keys for masks where there are some) of a round's letter."""
    private = letters.unbody(own, Private(player.own, key_to_compile()), "own")
    if player.masked is None:
        return private, letters.unbody(shared, player.shared, "shared"), None
    masks = letters.unbody(shared, shared_like(player.shared, player.masked), "shared")
    return private, masks.inner, masks


@cache
def key_to_compile() -> PRNGKeyArray:
    """A key to compile with; made at the first call, as importing a module computes nothing."""
    return jax.random.key(0, impl="threefry2x32")


def turn_of(head: Head, steps: int, key: Key[Array, ""]) -> Turn:
    """The turn that a letter asks for."""
    number, client, steps_ = (jnp.asarray(value, jnp.int32) for value in (head.round, head.client, steps))
    return Turn(number, client, steps_, key)


def arrays(tree: PyTree) -> PyTree:
    """What came as bytes, on this machine's device."""
    return trees.map(jnp.asarray, tree)


def shapes_of(init: Callable[[PyTree], PyTree], x: PyTree) -> PyTree:
    """The shapes of the state that `init` makes of x; nothing is computed."""
    return jax.eval_shape(init, x)


def _is_key(leaf: Array | jax.ShapeDtypeStruct) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def blank(shapes: PyTree) -> PyTree:
    """A message of zeros, to compile with."""
    return trees.map(lambda s: key_to_compile() if _is_key(s) else jnp.zeros(s.shape, s.dtype), shapes)
