"""What crosses for masked sums, as named arrays of known shapes: a row for each client of the run, zeros for who has no part.

A round has three exchanges. A site's card comes once in a run; then, in each round,

    SHARES   down: the cohort's cards            up: a mask key, and a box for each other site with shares of two secrets
    ROUND    down: the round, and mask keys      up: the masked words
    UNMASK   down: who came through, boxes       up: for each site of the round one share, of one of its two secrets
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, PyTree, UInt8, UInt32

from ..signatures import PASSPORT
from .derive import SECRET
from .shares import SHARE

SIGNATURE = 64
BOX = 2 * SHARE + 16  # two shares and a tag


class Card(NamedTuple):
    """Who a site is in this run, for the other sites; zeros in place of passport and signature where letters have no seals."""

    key: UInt8[np.ndarray, "32"]  # public, for boxes
    passport: UInt8[np.ndarray, "104"]
    signature: UInt8[np.ndarray, "64"]


class Roster(NamedTuple):
    """The cards of a round's cohort."""

    present: Bool[np.ndarray, "m"]
    key: UInt8[np.ndarray, "m 32"]
    passport: UInt8[np.ndarray, "m 104"]
    signature: UInt8[np.ndarray, "m 64"]


class Dealt(NamedTuple):
    """A site's answer to a roster."""

    key: UInt8[np.ndarray, "32"]  # public, for masks; of this round and roster alone
    signature: UInt8[np.ndarray, "64"]
    commitment: UInt8[np.ndarray, "32"]  # hash of the seed of its self mask, by which wrong shares of it show
    boxes: UInt8[np.ndarray, "m 82"]  # for each other site


class Keys(NamedTuple):
    """Those that have dealt, with whom a site masks."""

    roster: UInt8[np.ndarray, "m 32"]  # keys for boxes, of the whole roster
    listed: Bool[np.ndarray, "m"]  # is on the roster
    dealt: Bool[np.ndarray, "m"]
    key: UInt8[np.ndarray, "m 32"]  # for masks


class Signed(NamedTuple):
    """What proves that mask keys are the sites' own."""

    passport: UInt8[np.ndarray, "m 104"]
    signature: UInt8[np.ndarray, "m 64"]


class MaskedShared(NamedTuple):
    """The shared part of a round's letter."""

    inner: PyTree  # the method's own message
    keys: Keys
    signed: Signed


class Words(NamedTuple):
    """A masked reply."""

    words: UInt32[np.ndarray, "n"]


class Unmask(NamedTuple):
    """The shared part of the question for shares."""

    keys: Keys
    alive: Bool[np.ndarray, "m"]  # whose masked reply the sum has


class Boxes(NamedTuple):
    """The own part of it: what the other sites have closed for this one."""

    boxes: UInt8[np.ndarray, "m 82"]


class Revealed(NamedTuple):
    """Shares of the self mask of who is alive, of the mask key of who is not."""

    shares: UInt8[np.ndarray, "m 33"]


def blank(kind: type, clients: int) -> PyTree:
    """Zeros in the shape of a message for so many clients."""
    m, rows = clients, {"passport": PASSPORT.size, "signature": SIGNATURE, "key": SECRET, "boxes": BOX, "shares": SHARE}
    single, flags = kind in (Card, Dealt), ("present", "listed", "dealt", "alive")
    fields: dict[str, PyTree] = {}
    for name in kind._fields:
        if name in flags:
            fields[name] = np.zeros(m, bool)
        elif name in ("keys", "signed"):
            fields[name] = blank(Keys if name == "keys" else Signed, m)
        else:
            size = rows.get(name, SECRET)
            fields[name] = np.zeros(size if single and name != "boxes" else (m, size), np.uint8)
    return kind(**fields)


def as_row(data: bytes) -> UInt8[np.ndarray, "k"]:
    return np.frombuffer(data, np.uint8)
