"""Letters: what crosses between a server and a site. A head of 48 bytes, then named arrays codec writes them.

A letter from the server is `own + shared`: the head and what is meant for one site, then what all sites get, so that a
transport may carry the shared part once. A letter from a site is one piece. Nothing in it is ever run, and a reader
refuses what is longer than it expects before it looks inside.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from ..errors import FedtierError, require
from ..storage import named_arrays

MAGIC = b"FTW1"
HEAD = struct.Struct("<4sBxxxI16siiiif")
RUN_BYTES = 16
MOST_WORDS = 1 << 20  # bytes of the brief in a hello
SLACK = 1024  # bytes by which another writer's header may be longer than ours

Score = np.ndarray | np.floating | float


class NotFinite(FedtierError):
    """Numbers that are none."""


class Kind(IntEnum):
    """Numbers are part of the protocol: never renumber, only append."""

    HELLO = 1  # server: its version, the run's brief (JSON) after a line's end, and x_0
    ROUND = 2  # server: play this round
    LOST = 3  # server: the plan loses this reply; answer that you decline
    SCORE = 4  # server: x; keep it, measure it and your personal model
    CARD = 5  # server: tell your key for boxes; this and the next two where sums are masked (`secure`)
    SHARES = 6  # server: the cards of a round's sites; deal shares of your secrets
    UNMASK = 7  # server: who came through; reveal shares
    WELCOME = 11  # site: ready; how many rows
    REPLY = 12  # site: the method's message
    DECLINED = 13  # site: not this round
    SCORES = 14  # site: a few numbers
    REFUSED = 15  # site: why, in words
    UNKNOWN = 16  # site: never heard of this run; say hello
    FORGOT = 17  # site: its memory ends at round `last`, which is not where the server thinks it does
    SPOILT = 18  # site: what it computed is not finite, so there is no reply in this round; in words
    MASKING = 19  # site: what CARD, SHARES and UNMASK ask for


class Head(NamedTuple):
    kind: int
    run: bytes  # the run's id, 16 bytes
    round: int
    client: int
    steps: int  # to make; in a reply: made
    last: int  # the last round of this site that counted, -1 for none
    weight: float  # spec.weight, which only the server can know
    own: int = 0  # bytes of the own part


class Private(NamedTuple):
    """What a site gets in a round beside the shared message."""

    own: PyTree
    key: Key[Array, ""]  # turn.key


class First(NamedTuple):
    """What a hello brings where the method shows rows."""

    x: PyTree  # x_0
    shown: PyTree


def first(x: PyTree, shown: PyTree) -> PyTree:
    """What a hello brings: x_0, and the rows that are shown where there are some."""
    return First(x, shown) if jax.tree.leaves(shown) else x


class Welcome(NamedTuple):
    rows: np.ndarray | np.integer  # training rows
    held: np.ndarray | np.integer  # rows held back for its own test
    version: np.ndarray  # [3] of the site's fedtier


class Scores(NamedTuple):
    """What a site may tell of an evaluation. NaN where there is nothing to measure."""

    f2: Score
    personal: Score  # of the personal model on the site's held-back rows: accuracy, or root mean squared error of a regression
    shared: Score  # of the global model on them


class Letters(NamedTuple):
    """A letter for each named site; `shared` is the same for all and may travel once."""

    shared: bytes
    own: Mapping[str, bytes]
    most: int = 0  # bytes that a reply may have, its seal included; 0 where nobody said

    def whole(self, site: str) -> bytes:
        """The letter as its site must get it."""
        return self.own[site] + self.shared

    def only(self, sites: Iterable[str]) -> Letters:
        return self._replace(own={site: self.own[site] for site in sites})


Ask = Callable[[Letters, float], Mapping[str, bytes]]  # (letters, seconds) -> the replies that came; the rest is silence


def body(tree: PyTree) -> bytes:
    """The tree as the codec writes it; nothing where there is nothing to say."""
    return named_arrays.encode(tree) if jax.tree.leaves(tree) else b""


def body_size(tree: PyTree) -> int:
    return named_arrays.size(tree)


def unbody(data: bytes, like: PyTree, what: str) -> PyTree:
    if jax.tree.leaves(like):
        return named_arrays.decode(data, like, what)
    require(not data, what, f"{len(data)} bytes", "must be empty")
    return like


def pack(head: Head, own: bytes = b"") -> bytes:
    """The head and the own part; the shared part of a server's letter follows."""
    kind, run, number, client, steps, last, weight, _ = head
    return HEAD.pack(MAGIC, kind, len(own), run, number, client, steps, last, weight) + own


def unpack(letter: bytes, limit: int) -> tuple[Head, bytes, bytes]:
    """(head, own part, shared part); refuses before it copies what is longer than `limit` or lies about its parts."""
    size = len(letter)
    require(size <= limit, "letter", f"{size} bytes", f"must not be longer than {limit} bytes")
    require(size >= HEAD.size, "letter", f"{size} bytes", "is too short to be one")
    magic, kind, own, run, number, client, steps, last, weight = HEAD.unpack_from(letter)
    require(magic == MAGIC, "letter", magic, "is not a letter of this version")
    require(kind in Kind._value2member_map_, "letter", kind, "is of no known kind")
    require(HEAD.size + own <= size, "letter", f"{size} bytes", "is cut short")
    cut = HEAD.size + own
    return Head(kind, run, number, client, steps, last, weight, own), letter[HEAD.size : cut], letter[cut:]


def words(head: Head, text: str) -> bytes:
    """A letter of plain words: a refusal."""
    return pack(head, text.encode()[:SLACK])


def printable(data: bytes) -> str:
    """A site's words for the log: one line of plain characters."""
    return "".join(c if c.isprintable() else "?" for c in data[:300].decode(errors="replace"))


def about(letter: bytes) -> dict[str, str | int]:
    """What a record says of a letter: its kind, run and round, as far as it is one."""
    try:
        head = unpack(letter, len(letter))[0]
    except FedtierError:
        return {"kind": "?"}
    return {"kind": Kind(head.kind).name, "run": head.run.hex(), "round": head.round}


def finite(tree: PyTree, what: str) -> None:
    for name, array in named_arrays.to_arrays(tree).items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise NotFinite(f"{what}.{name}", f"{array.dtype}{list(array.shape)}", "holds a NaN or an infinite number")


UNSIGNED = words(Head(Kind.REFUSED, bytes(RUN_BYTES), 0, 0, 0, -1, 0.0), "not signed by the server for its reader")
