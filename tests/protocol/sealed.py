"""Identities for the toy federation, made as `fedtier provision` and `fedtier flower` make them."""

from __future__ import annotations

import time
from pathlib import Path

from fedtier.protocol.signatures import SERVER, Identity, ServerSeal, SiteSeal, issue, new_key, read_identity


class House:
    """One authority, and the identities that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.secret = folder, new_key()
        folder.mkdir(parents=True, exist_ok=True)

    def identity(self, party: str, days: float = 1.0) -> Identity:
        path = self.folder / f"{party}-{days}.json"
        if not path.exists():
            path.write_text(issue(self.secret, party, int(time.time() + 86_400 * days)))
        return read_identity(path)

    def server(self) -> ServerSeal:
        return ServerSeal(self.identity(SERVER))

    def site(self, i: int) -> SiteSeal:
        return SiteSeal(self.identity(f"site-{i}"))
