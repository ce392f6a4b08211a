"""What a site does with the letters of masked sums, and the rules that it keeps whatever it is asked.

- It reveals for one sum of a round only: for every other site either the share of its self mask or that of its mask key, never
  both. What it has revealed is on its disk before it leaves.
- It masks nothing more in a round for which it has revealed, and reveals only for what it has masked last: of two sums over
  almost the same sites, the difference would be one site's reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from ...errors import FedtierError, require
from .. import letters
from ..letters import Head, Kind
from ..memory import Memo
from .masking import Member, group_of, split_of
from .messages import Boxes, Keys, MaskedShared, Revealed, Roster, Signed, Unmask, blank
from .settings import Masking

ROUNDS = 2  # for which a site remembers what it has revealed: a server may have to play its last round again


class Masked(NamedTuple):
    """How a player's replies are masked."""

    settings: Masking
    numbers: Callable[[PyTree, float], Float[np.ndarray, "n"]]  # (up, the weight told) -> what is summed
    rest: int = 2  # so many of them, the last, are counts and get no noise: a contribution's weight, and whether it moved


def shared_like(inner: PyTree, how: Masked) -> MaskedShared:
    """The shape of the shared part of a round's letter."""
    clients = len(how.settings.sites)
    return MaskedShared(inner, blank(Keys, clients), blank(Signed, clients))


def check_unrevealed(memo: Memo, number: int) -> None:
    """Refuses to mask for a round that this site has helped to unmask."""
    rule = "this site has revealed its shares for this round, and masks nothing more in it"
    require(all(number != done for done, _ in memo.revealed), "round", number, rule)


def masking_answer(member: Member, head: Head, own: bytes, shared: bytes, memo: Memo) -> tuple[bytes, Memo]:
    """The reply to CARD, SHARES or UNMASK, and what the site must have on disk before it leaves."""
    clients = len(member.settings.sites)
    if head.kind == Kind.CARD:
        return _packed(head, member.card()), memo
    if head.kind == Kind.SHARES:
        return _packed(head, member.deal(head.round, letters.unbody(shared, blank(Roster, clients), "roster"))), memo
    asked = letters.unbody(shared, blank(Unmask, clients), "unmask")
    boxes = letters.unbody(own, blank(Boxes, clients), "own").boxes
    memo = _may_reveal(memo, head.round, group_of(member.settings, member.run, head.round, asked.keys), asked.alive)
    revealed: Revealed = member.reveal(head.round, asked, boxes)
    return _packed(head, revealed), memo


def _may_reveal(memo: Memo, number: int, group: bytes, alive: np.ndarray) -> Memo:
    """The memo with this reveal in it; FedtierError where it would be the second of its round, or of nothing masked here."""
    split = split_of(group, alive)
    if (number, split) in memo.revealed:
        return memo  # asked again: the same answer
    if any(number == done for done, _ in memo.revealed):
        raise FedtierError("unmask", number, "this site has revealed its shares for another sum of this round")
    pending = memo.pending
    fits = pending is not None and pending.round == number and pending.group == group.hex()
    require(fits, "unmask", number, "is not of the sum for which this site has masked last")
    kept = tuple(one for one in memo.revealed if one[0] > number - ROUNDS)
    return memo._replace(revealed=(*kept, (number, split)))


def _packed(head: Head, content: PyTree) -> bytes:
    return letters.pack(head._replace(kind=Kind.MASKING), letters.body(content))


def flat_numbers(tree: PyTree) -> Float[np.ndarray, "n"]:
    """All numbers of a tree, one after another, in double precision."""
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def tree_of(numbers: Float[np.ndarray, "n"], like: PyTree) -> PyTree:
    """The inverse of `flat_numbers`, in the types of `like`."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])[:-1]
    parts = np.split(numbers, ends)
    made = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, made)
