"""What a site remembers of a run, on disk before any reply leaves: the brief, its state, and its last reply.

    kept       the state after the last round that the server counted
    pending    the state and the reply of the round since then, of which the site does not yet know whether it counted

The next letter tells: its `last` is the last round of this site that counted. So a reply that was late, lost or refused
leaves no trace, a repeated round gets the same reply, and both hold whatever dies in between.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from ..errors import NOTHING, FedtierError
from ..storage import named_arrays
from ..storage.files import make_private, told, write_whole

FORMAT = "fedtier-site-1"
BEFORE = -1  # the round of the initial state


class Pending(NamedTuple):
    round: int
    state: PyTree
    reply: bytes


class Memo(NamedTuple):
    """All that a site remembers of a run between two letters."""

    round: int  # of `kept`
    kept: PyTree
    pending: Pending | None


class Memory:
    """The folder of one site: a folder per run in it. Without a folder nothing outlives the process."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            make_private(folder)
            with told(folder):
                self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)  # held until the process ends
                fcntl.flock(self._lock, fcntl.LOCK_EX)  # a relaunched process waits for the last one to be gone

    def close(self) -> None:
        """Lets another process have the folder."""
        if self.folder is not None:
            os.close(self._lock)

    def place(self, run: bytes) -> Path | None:
        return None if self.folder is None else self.folder / run.hex()

    def save_brief(self, run: bytes, client: int, text: str) -> None:
        place = self.place(run)
        if place is not None:
            make_private(place)
            write_whole(place / "brief.json", json.dumps({"client": client, "brief": text}).encode())

    def load_brief(self, run: bytes) -> tuple[int, str] | None:
        place = self.place(run)
        if place is None or not (place / "brief.json").exists():
            return None
        try:
            content = json.loads((place / "brief.json").read_text(encoding="utf-8"))
            return int(content["client"]), str(content["brief"])
        except (OSError, ValueError, KeyError) as error:
            raise FedtierError(str(place / "brief.json"), NOTHING, f"is damaged: {error}", _HINT) from None

    def save(self, run: bytes, memo: Memo) -> None:
        place = self.place(run)
        if place is None:
            return
        trees: dict[str, Any] = {"kept": memo.kept}
        header = {"format": FORMAT, "kept": str(memo.round)}
        if memo.pending is not None:
            trees["pending"] = memo.pending.state
            header["pending"] = str(memo.pending.round)
            trees["reply"] = np.frombuffer(memo.pending.reply, np.uint8)
        named_arrays.save(place / "memory.safetensors", trees, header)

    def load(self, run: bytes, like: PyTree) -> Memo | None:
        """The memo whose states are shaped like `like`; None where there is none yet."""
        place = self.place(run)
        path = None if place is None else place / "memory.safetensors"
        if path is None or not path.exists():
            return None
        found, header = named_arrays.load_arrays(path, FORMAT, _HINT)
        try:
            kept, pending = int(header["kept"]), header.get("pending")
        except (KeyError, ValueError) as error:
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", _HINT) from None
        shape: dict[str, Any] = {"kept": like}
        if pending is not None:
            shape |= {"pending": like, "reply": found.get("reply", np.zeros(0, np.uint8))}
        trees = named_arrays.from_arrays(found, shape, str(path))
        if pending is None:
            return Memo(kept, trees["kept"], None)
        return Memo(kept, trees["kept"], Pending(int(pending), trees["pending"], trees["reply"].tobytes()))


_HINT = "move the run's folder away; the site then starts the run anew, and the server is told"
