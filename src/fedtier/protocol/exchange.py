"""The server's post: signs letters, records them, hands them to a transport, and opens the replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import require
from . import letters
from .letters import Ask, Letters
from .record import Record, digest
from .signatures import SEAL, ServerSeal, opened


class Answer(NamedTuple):
    """A reply as it came, and the letter that it must answer."""

    site: str
    reply: bytes
    seal: ServerSeal | None
    asked: bytes  # the hash of the letter, where letters are sealed

    def open(self, most: int) -> bytes:
        """The reply inside its seal; FedtierError when it is longer than `most`, or not this site's answer to this letter."""
        if self.seal is None:
            return self.reply
        size, most = len(self.reply), most + SEAL.size
        require(size <= most, "reply", f"{size} bytes", f"must not be longer than {most} bytes")
        rule = "does not take this server's signature: is its kit of the same authority, and its clock right?"
        require(self.reply != letters.UNSIGNED, "site", self.site, rule)
        return self.seal.open(self.reply, self.site, self.asked)


class Exchange:
    """`ask` over a transport's; without a seal the letters go as they are, and without a record nothing is written down."""

    def __init__(self, transport: Ask, seal: ServerSeal | None = None, record: Record | None = None) -> None:
        self.transport, self.seal, self.record = transport, seal, record
        self.seal_bytes = 0 if seal is None else SEAL.size  # that each letter and each reply has beyond its own

    def ask(self, sent: Letters, seconds: float) -> dict[str, Answer]:
        sent, hashes = self.outgoing(sent)
        replies = self.transport(sent, seconds)
        return self.incoming({site: replies[site] for site in sent.own if site in replies}, hashes)

    def outgoing(self, sent: Letters) -> tuple[Letters, Mapping[str, bytes]]:
        """The letters as they cross, on record, and the hash by which each site's reply must name its letter."""
        hashes: Mapping[str, bytes] = {}
        if self.seal is not None:
            sent, hashes = self.seal.seal(sent)
        if self.record is not None:
            self._tell_withdrawn(self.record)
            self._write("out", {site: sent.whole(site) for site in sent.own})
        return sent, hashes

    def incoming(self, came: Mapping[str, bytes], hashes: Mapping[str, bytes]) -> dict[str, Answer]:
        """The replies that came, on record."""
        self._write("in", came)
        return {site: Answer(site, reply, self.seal, hashes.get(site, b"")) for site, reply in came.items()}

    def _tell_withdrawn(self, record: Record) -> None:
        """The record says from when on a party's keys no longer count."""
        if self.seal is not None and self.seal.withdrawn is not None:
            for said in self.seal.withdrawn.news():
                record.add(("revoked", said))

    def _write(self, way: str, crossed: Mapping[str, bytes]) -> None:
        if self.record is not None and crossed:
            self.record.add(*((way, {"who": site} | letters.about(opened(it)) | digest(it)) for site, it in crossed.items()))
