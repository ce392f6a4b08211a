"""Certificates and signing keys that the authority has taken back: revoked.json, in its own folder and in the server's kit.

    {"number": 3, "revoked": [{"party": "north", "name": "north", "before": 1794, "keys": ["..."]}], "signature": "..."}

Every certificate of `name` that began before `before` (seconds since the epoch) is refused, whoever holds it and however many
there are; `keys` are the signing keys that were issued to the party until then. A certificate that is issued later begins
later, so the party comes back with a new one and never with an old one. The authority signs the list; the server takes
one that is signed, and no older one after a newer one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ...errors import NOTHING, FedtierError, require
from ...protocol.signatures import check_words, signed_words
from ...reports.live.certificates import revoked_on
from ...storage.files import write_whole
from ...storage.json_value import Json

REVOKED = "revoked.json"
HINT = "copy revoked.json from the authority's folder into the server's kit again"


class Revoked(NamedTuple):
    """One party's certificates and keys, all that were issued before a moment."""

    party: str
    name: str  # the name in the certificates
    before: int
    keys: tuple[str, ...]

    @property
    def words(self) -> str:
        return revoked_on(self.before)


class Revocations(NamedTuple):
    number: int = 0
    revoked: tuple[Revoked, ...] = ()

    def of(self, name: str, begun: float) -> Revoked | None:
        """Why a certificate of `name` that begins at `begun` is refused."""
        return next((one for one in self.revoked if one.name == name and begun < one.before), None)

    def since(self, name: str) -> int:
        """The moment before which no certificate of `name` may begin."""
        return max((one.before for one in self.revoked if one.name == name), default=0)

    def with_party(self, party: str, names: Iterable[str], keys: Iterable[str]) -> Revocations:
        """Also all that `party` has been given until now; what had been taken back before stays so."""
        now, known = int(time.time()) + 1, tuple(keys)
        fresh = tuple(Revoked(party, name, now, known) for name in names)
        gone = {one.name for one in fresh}
        return Revocations(self.number + 1, (*(one for one in self.revoked if one.name not in gone), *fresh))


def write_revoked(path: Path, found: Revocations, authority: str) -> None:
    """Signed with the authority's private key."""
    words = _words(found)
    write_whole(path, (json.dumps({"signed": words, "signature": signed_words(authority, words)}, indent=1) + "\n").encode())


def read_revoked(path: Path, authority: str) -> Revocations:
    """The list, whose signature holds under the authority's public key; an empty one where there is no file."""
    if not path.exists():
        return Revocations()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        check_words(authority, content["signed"], content["signature"], str(path))
        table = json.loads(content["signed"])
        entries = tuple(Revoked(one["party"], one["name"], int(one["before"]), tuple(one["keys"])) for one in table["revoked"])
        return Revocations(int(table["number"]), entries)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        rule = error.rule if isinstance(error, FedtierError) else f"cannot be read: {error!r}"
        raise FedtierError(str(path), NOTHING, rule, HINT) from None


def _words(found: Revocations) -> str:
    return json.dumps({"number": found.number, "revoked": [one._asdict() for one in found.revoked]}, sort_keys=True)


class RevokedFile:
    """The list as it stands in a file that may be replaced at any time; the last good one counts."""

    def __init__(self, path: Path, authority: str) -> None:
        self.path, self.authority = path, authority
        self.found = read_revoked(path, authority)
        self._seen, self._told = self._stamp(), 0
        self.trouble = ""  # why the file that is there now does not count

    def look(self) -> bool:
        """Reads the file if it was replaced; whether another list counts now, or another trouble."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            require(stamp is not None, str(self.path), NOTHING, "is gone", HINT)
            fresh = read_revoked(self.path, self.authority)
            require(fresh.number >= self.found.number, str(self.path), fresh.number, "is older than the list that counts", HINT)
        except FedtierError as error:
            self.trouble = f"{str(error).splitlines()[0]}; list {self.found.number} still counts"
            return True
        self.found, self.trouble = fresh, ""
        return True

    def _stamp(self) -> tuple[int, int] | None:
        try:
            about = self.path.stat()
            return about.st_ino, about.st_mtime_ns
        except OSError:
            return None

    # -- for seals (`protocol.signatures.Withdrawn`)

    def withdrawn_keys(self) -> frozenset[str]:
        self.look()
        return frozenset(key for one in self.found.revoked for key in one.keys)

    def news(self) -> list[dict[str, Json]]:
        """The entries of a list that came since the last question; all of them at first."""
        self.look()
        if self.found.number <= self._told:
            return []
        self._told = self.found.number
        return [{"who": one.party, "before": one.before, "list": self.found.number} for one in self.found.revoked]
