"""Until when the certificates of a run's parties hold, and which were revoked: `certificates.json`, for `status` and `watch`.

Written by the supervisor at the server, in FLARE's workspace, from what the door has seen (`peers`) and the authority's list.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...protocol.signatures import SERVER, read_identity
from ...reports.live.certificates import CERTIFICATES, DAY, SOON, ends_in, revoked_on
from ...storage.files import write_whole
from .peers import PARTIES
from .revocation import REVOKED, RevokedFile
from .workspace import SIGNING, Kit, certificate_ends


def revoked_file(kit: Path) -> RevokedFile:
    """The list in a server's kit, which its own authority must have signed."""
    authority = read_identity(kit / SIGNING).authority.public_bytes_raw().hex()
    return RevokedFile(kit / REVOKED, authority)


class Validity:
    """Looks at each beat of `serve`; `note` gets the lines for the run's log."""

    def __init__(self, kit: Kit, workspace: Path, sites: Sequence[str], note: Callable[[str], None]) -> None:
        self.kit, self.workspace, self.sites, self.note = kit, workspace, sites, note
        self.revoked = revoked_file(kit.folder)
        self.told: set[tuple[str, float]] = set()
        self.written = ""

    def look(self) -> None:
        """Writes the table where it has changed, and says what is new."""
        if self.revoked.look() and self.revoked.trouble:
            self.note(f"revoked.json: {self.revoked.trouble}")
        table = self.table()
        for party, said in table.items():
            gone = said["revoked"]
            if gone and (party, gone) not in self.told:
                self.told.add((party, gone))
                self.note(f"{party}: refused: {revoked_on(gone)}; a new one lets it back in")
            self._warn(party, said["until"])
        text = json.dumps(table)
        if text != self.written:
            write_whole(self.workspace / CERTIFICATES, text.encode())
            self.written = text

    def table(self) -> dict[str, dict[str, Any]]:
        """{party: {"until": seconds or None, "revoked": seconds or None}}."""
        seen = _seen(self.workspace / PARTIES)
        own = certificate_ends(self.kit.folder, self.kit.kind).timestamp()
        table: dict[str, dict[str, Any]] = {SERVER: {"until": own, "revoked": None}}
        for site in self.sites:
            begun, until, slow = seen.get(site, (0.0, None, False))
            if slow and (site, 0.0) not in self.told:
                self.told.add((site, 0.0))
                self.note(f"{site}: sends faster than wire.max_bytes_per_second or wire.max_messages_per_second; slowed")
            gone = self.revoked.found.of(site, begun)
            table[site] = {"until": until, "revoked": gone.before if gone else None}
        return table

    def _warn(self, party: str, until: float | None) -> None:
        """Once a day, from SOON days before the end."""
        left = None if until is None else (until - time.time()) / DAY
        if left is not None and left < SOON and (party, -int(left) - 1) not in self.told:
            self.told.add((party, -int(left) - 1))
            self.note(f"{party}: certificate {ends_in(left)}; renew it: docs/operations.md")


def _seen(path: Path) -> dict[str, tuple[float, float, bool]]:
    try:
        return {
            name: (begun, until, slow) for name, (begun, until, slow) in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, TypeError):
        return {}


def read_certificates(workspace: Path) -> dict[str, dict[str, Any]]:
    """The table that `Validity` has written; nothing where there is none."""
    try:
        return json.loads((workspace / CERTIFICATES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
