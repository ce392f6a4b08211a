"""Is this a reply that may count? Right run, round, client, shape, type; finite; and of a sane size.

Of a sane size: no longer than expected in bytes, checked first, and no longer as a vector than `magnitude` times the median of
the replies that counted lately (of this round's, as long as none has). Replies of honest clients differ by their data,
their steps and their weights, say a hundredfold; the default of 10,000 lets those pass and stops a slipped decimal
point, an overflow or the plainest attack. It is no defence against a careful one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from ..errors import FedtierError, require
from ..storage import named_arrays
from . import letters
from .letters import HEAD, SLACK, Head, Kind, Scores, Welcome

WINDOW = 64  # replies that the median looks back on


class Spoilt(FedtierError):
    """A reply to this very letter whose numbers cannot count. To ask again would bring the same: it is lost."""


class Reply(NamedTuple):
    up: PyTree
    steps: int  # that the site made
    size: int  # bytes
    norm: float


def reply_limit(up: PyTree) -> int:
    """Bytes that a reply may have; also the room for a refusal's words."""
    return HEAD.size + SLACK + letters.body_size(up)


def open_reply(letter: bytes, asked: Head, limit: int) -> tuple[Head, bytes]:
    """The head and the body of a letter that answers `asked`; FedtierError says why it does not."""
    head, own, rest = letters.unpack(letter, limit)
    require(not rest, "reply", f"{len(rest)} bytes", "has bytes after its end")
    require(head.run == asked.run, "reply.run", head.run.hex(), "is of another run")
    require(head.round == asked.round, "reply.round", head.round, f"must be {asked.round}: it came late, or early")
    require(head.client == asked.client, "reply.client", head.client, f"must be {asked.client}")
    if head.kind == Kind.REFUSED:
        raise FedtierError("site", letters.printable(own), "the site refuses")
    return head, own


def read_reply(letter: bytes, asked: Head, up: PyTree) -> Reply | Head:
    """The reply to a round's letter, or the head of an answer of another kind; FedtierError for anything else, `Spoilt` where
    the letter answers the right question with numbers that cannot count."""
    head, body = open_reply(letter, asked, reply_limit(up))
    if head.kind in (Kind.DECLINED, Kind.UNKNOWN, Kind.FORGOT):
        return head
    if head.kind == Kind.SPOILT:
        raise Spoilt("reply", letters.printable(body), "is not finite at the site itself")
    require(head.kind == Kind.REPLY, "reply.kind", head.kind, "is no answer to a round")
    require(0 <= head.steps <= asked.steps, "reply.steps", head.steps, f"must be 0 to {asked.steps}")
    try:
        message = letters.unbody(body, up, "reply")
        letters.finite(message, "reply")
    except FedtierError as error:
        raise Spoilt(error.name, error.value, error.rule) from None
    return Reply(message, head.steps, len(letter), norm(message))


def read_welcome(letter: bytes, asked: Head) -> tuple[int, int, str, int]:
    """(rows to learn from, rows held back, version, the last round it knows to have counted) of a site that says welcome."""
    like = Welcome(np.zeros((), np.int32), np.zeros((), np.int32), np.zeros(3, np.int32))
    head, body = open_reply(letter, asked, HEAD.size + SLACK)
    require(head.kind == Kind.WELCOME, "reply.kind", head.kind, "is no answer to a hello")
    welcome = letters.unbody(body, like, "welcome")
    rows, held = int(welcome.rows), int(welcome.held)
    require(rows > 0, "rows", rows, "must be above 0")
    require(held >= 0, "held", held, "must be at least 0")
    return rows, held, ".".join(str(int(number)) for number in welcome.version), head.last


def read_scores(letter: bytes, asked: Head, most: float = 1.0) -> Scores | None:
    """A site's scores, from 0 to `most`; None where it keeps them to itself."""
    zero = np.zeros((), np.float32)
    head, body = open_reply(letter, asked, HEAD.size + SLACK)
    if head.kind == Kind.DECLINED:
        return None
    require(head.kind == Kind.SCORES, "reply.kind", head.kind, "is no answer to an evaluation")
    scores = Scores(*(float(value) for value in letters.unbody(body, Scores(zero, zero, zero), "scores")))
    for name in ("personal", "shared"):
        value = getattr(scores, name)
        require(math.isnan(value) or 0 <= value <= most, name, value, f"must lie between 0 and {most:g}")
    require(not math.isinf(scores.f2), "f2", scores.f2, "must be finite")
    return scores


def norm(tree: PyTree) -> float:
    """The length of all numbers as one vector, in double precision."""
    arrays = [a.astype(np.float64) for a in named_arrays.to_arrays(tree).values() if a.dtype.kind == "f"]
    return float(np.sqrt(sum(float(np.vdot(a, a)) for a in arrays)))


def too_large(replies: dict[int, Reply], recent: np.ndarray, magnitude: float) -> dict[int, float]:
    """The clients whose reply is longer than `magnitude` times the reference, with that limit."""
    known = recent[np.isfinite(recent)]
    if not len(known):
        known = np.asarray([reply.norm for reply in replies.values() if reply.norm > 0])
    if not len(known):
        return {}
    limit = magnitude * float(np.percentile(known, 50, method="lower"))
    return {client: limit for client, reply in replies.items() if reply.norm > limit}


def remembered(recent: np.ndarray, replies: dict[int, Reply]) -> np.ndarray:
    """The window of recent lengths with those of `replies` at its end; silence (length 0) says nothing about size."""
    new = [replies[client].norm for client in sorted(replies) if replies[client].norm > 0]
    return np.concatenate([recent, np.asarray(new, np.float64)])[-WINDOW:]


def no_history() -> np.ndarray:
    return np.full(WINDOW, np.nan)
