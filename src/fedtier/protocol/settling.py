"""What counted, by what a letter says of it: the answer that waits becomes part of the site's state, or is forgotten."""

from __future__ import annotations

from ..errors import FedtierError, require
from .letters import Head, Kind
from .memory import BEFORE, Answered, Memo


class Instead(Exception):
    """Another answer than the one asked for."""

    def __init__(self, kind: Kind, last: int = BEFORE, text: str = "") -> None:
        self.kind, self.last, self.text = kind, last, text


def settled(memo: Memo, head: Head, *, stale: bool) -> Memo:
    """`memo` once the letter has said what counted: pending becomes kept, or is forgotten.

    A letter may repeat the pending round. Letters from the past change nothing and are refused. Where answers are `stale`,
    the last that counted may be asked for again however old it is; where there are rounds, only by too old a server.
    """
    counted = head.last if stale else None
    memo = memo._replace(past=tuple(one for one in memo.past if one.round >= head.round - 1 or one.round == counted))
    pending, now = memo.pending, head.round
    require(head.last < now, "last", head.last, f"must be before the letter's own round {now}")
    newest = pending.round if pending is not None else memo.round
    if now <= memo.round:
        raise Instead(Kind.FORGOT, memo.round, f"round {now} is past: this site knows that round {memo.round} counted")
    if now < newest:
        raise FedtierError("round", now, f"is past: this site has answered round {newest}", "the letter came late")
    if pending is not None and pending.round == head.last:
        done = Answered(pending.round, pending.letter, pending.reply)
        past = (*memo.past, done) if stale or pending.round >= now - 1 else memo.past
        return memo._replace(round=pending.round, kept=pending.state, pending=None, past=past)
    if head.last > memo.round:
        raise Instead(Kind.FORGOT, memo.round)
    rule = f"is past: this site knows that round {memo.round} counted"
    require(head.last == memo.round, "last", head.last, rule, "was the server set back to an older copy?")
    return memo if pending is None or pending.round == now else memo._replace(pending=None)
