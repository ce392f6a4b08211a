"""Who is behind each connection at the server's door, by the certificate that TLS has verified; no import of FLARE.

The door asks at each handshake and once a second: a party whose certificate was revoked is not let in, and cut off if it is.
`parties.json` in FLARE's workspace says until when the certificates hold that were last shown.
"""

from __future__ import annotations

import collections
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.files import write_whole
from .budget import Budget, Rate
from .revocation import RevokedFile

PARTIES = "parties.json"


class Peer(NamedTuple):
    """The name in a certificate, and from when to when that holds, in seconds since the epoch."""

    name: str
    begun: float
    until: float


def peer_of(certificate: Mapping[str, Any]) -> Peer:
    """Of what `SSLSocket.getpeercert` gives."""
    names = dict(pair for part in certificate["subject"] for pair in part)
    begun, until = (ssl.cert_time_to_seconds(certificate[key]) for key in ("notBefore", "notAfter"))
    return Peer(names.get("commonName", "?"), float(begun), float(until))


class Tally:
    """Counts what each name does, and says at the 1st, 2nd, 4th, 8th, ... time that it is worth a line."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def worth_telling(self, name: str) -> bool:
        self.counts[name] += 1
        return self.counts[name].bit_count() == 1


class Peers:
    """The live connections; used by the threads of the door."""

    def __init__(self, revoked: RevokedFile | None = None, notes: Path | None = None, rate: Rate | None = None) -> None:
        self.revoked, self.notes, self.rate = revoked, notes, rate
        self.budgets: dict[str, Budget] = {}
        self._slow: set[str] = set()  # who was slowed, as the notes say
        self.live: dict[socket.socket, Peer] = {}
        self.known: dict[str, Peer] = {}
        self._lock = threading.Lock()

    def enter(self, link: socket.socket, peer: Peer) -> str:
        """Why the peer is refused; if nothing, it is inside from now on."""
        with self._lock:
            if self.revoked is not None:
                self.revoked.look()
                gone = self.revoked.found.of(peer.name, peer.begun)
                if gone is not None:
                    return gone.words
            self.live[link] = peer
            if self.known.get(peer.name) != peer:
                self.known[peer.name] = peer
                self._write()
        return ""

    def leave(self, link: socket.socket) -> None:
        with self._lock:
            self.live.pop(link, None)

    def budget(self, name: str) -> Budget | None:
        """What a party may send, over all its connections."""
        with self._lock:
            return None if self.rate is None else self.budgets.setdefault(name, Budget(self.rate))

    def slow(self) -> list[str]:
        """Who has been slowed for the first time since the last look; the notes say so, too."""
        with self._lock:
            fresh = [name for name, budget in self.budgets.items() if budget.slowed and name not in self._slow]
            self._slow.update(fresh)
            if fresh:
                self._write()
            return fresh

    def cut(self) -> list[str]:
        """Ends the connections of those whose certificates were revoked meanwhile; a line for each."""
        with self._lock:
            if self.revoked is None or not self.revoked.look():
                return []
            said = [self.revoked.trouble] if self.revoked.trouble else []
            for link, peer in self.live.items():
                gone = self.revoked.found.of(peer.name, peer.begun)
                if gone is not None:
                    _shut(link)
                    said.append(f"{peer.name}: cut off: {gone.words}")
            return said

    def _write(self) -> None:
        if self.notes is not None:
            write_whole(
                self.notes, json.dumps({name: [*peer[1:], name in self._slow] for name, peer in self.known.items()}).encode()
            )


def _shut(link: socket.socket) -> None:
    """Both ways, under whatever reads from it: that sees the end of the stream."""
    try:
        socket.socket.shutdown(link, socket.SHUT_RDWR)  # not TLS's own, which takes the reader's state away
    except OSError:
        return
