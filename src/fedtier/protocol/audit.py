"""The records of a server and of a site held against each other, letter by letter.

A letter or a reply may be lost on its way, so what one end sent the other need not have. But what one end received, the other
has sent: a receipt without its sending means that a record was cut, or that somebody else has the key. The chain of one record
alone cannot show that its end was cut off, or that all of it was written anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import FedtierError, require
from ..storage.json_value import as_text
from .record import Line, read_record
from .signatures import SERVER


class Compared(NamedTuple):
    """Two records that agree."""

    site: str
    letters: int  # that the server sent and the site received
    replies: int  # that the site sent and the server received
    lost_letters: int  # sent, and not received
    lost_replies: int


def compare_records(one: Path, other: Path) -> Compared:
    """The record of a site and that of its server, in any order; FedtierError names the first receipt of something that the
    other end has not sent."""
    records = read_record(one), read_record(other)
    sides = [_is_site(lines) for lines in records]
    if sides[0] == sides[1]:
        kind = "sites" if sides[0] else "servers"
        raise FedtierError("--against", str(other), f"both records are of {kind}", "compare that of a site with its server's")
    site, server = records if sides[0] else records[::-1]
    name = _name_of(site, server)
    there = [line for line in server if line.said.get("who") == name]
    down, up = (_way(there, "out"), _way(site, "in")), (_way(site, "out"), _way(there, "in"))
    begun = [lines[0].number == 0 for lines in (server, site)]
    letters = _arrived(*down, "the server's", since_start=begun[0])
    replies = _arrived(*up, "the site's", since_start=begun[1])
    return Compared(name, letters, replies, _lost(*down, since_start=begun[1]), _lost(*up, since_start=begun[0]))


def _sum(line: Line) -> str:
    return as_text(line.said["sha256"])


def _way(lines: list[Line], way: str) -> list[Line]:
    return [line for line in lines if line.said.get("way") == way]


def _is_site(lines: list[Line]) -> bool:
    return any(line.said.get("who") == SERVER for line in lines)


def _name_of(site: list[Line], server: list[Line]) -> str:
    """Which of the server's sites wrote the record: no two sites get the same sealed letter."""
    known = {_sum(line) for line in [*_way(site, "in"), *_way(site, "out")]}
    names = {as_text(line.said["who"]) for line in [*_way(server, "in"), *_way(server, "out")] if _sum(line) in known}
    require(len(names) == 1, "--against", sorted(names), "the two records have no letter in common", "are they of one run?")
    return names.pop()


def _arrived(sent: list[Line], received: list[Line], whose: str, *, since_start: bool) -> int:
    """How many letters were received, all of which were sent; where the sender's record no longer reaches back to its start,
    from the first on that both still keep."""
    known = {_sum(line) for line in sent}
    kept = received if since_start else _from_first(received, known)
    rule, hint = f"was received, but {whose} record does not say that it was sent", "one of the records was cut or rewritten"
    for line in kept:
        require(_sum(line) in known, line.place, line.said.get("kind"), rule, hint)
    return len(kept)


def _lost(sent: list[Line], received: list[Line], *, since_start: bool) -> int:
    """How many letters were sent and not received, as far back as the receiver's record reaches."""
    known = {_sum(line) for line in received}
    return sum(_sum(line) not in known for line in (sent if since_start else _from_first(sent, known)))


def _from_first(lines: list[Line], known: set[str]) -> list[Line]:
    return lines[next((k for k, line in enumerate(lines) if _sum(line) in known), len(lines)) :]
