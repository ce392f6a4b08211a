"""Which run a server's folder holds: wire.json, and what a checkpoint says of it where that file is damaged or gone."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import NOTHING, require
from ..experiments.run_folder import CHECKPOINT, FORMAT, RunFolder
from ..storage.array_files import ArrayFile
from ..storage.checksums import stamped, unstamped
from ..storage.files import Damaged, previous
from .settings import WireRun

WIRE = "wire.json"
HINT = "put back a copy of the run's folder that is no older than the sites' memories, or start the run anew with another --out"


def run_id_of(run: WireRun, files: RunFolder) -> bytes:
    """The run's id: a new one unless the folder holds this very run."""
    content: dict[str, Any] = {"sites": run.wire.sites, "config": run.config.digest(endless=True)}  # it may be extended
    path = files.folder / WIRE
    if not path.exists() and not _checkpoints(files):
        files.refuse_second_run()
        files.write(WIRE, stamped({"run": secrets.token_hex(16)} | content).encode())
    found = _wire(path) or _wire_of_checkpoint(files)
    same = found.get("sites") == content["sites"] and found.get("config") in (content["config"], run.config.digest())
    require(same, "folder", str(files.folder), "holds another run, or other sites", "choose another folder")
    return bytes.fromhex(found["run"])


def _wire(path: Path) -> dict[str, Any] | None:
    """What wire.json says; None where it is gone or damaged."""
    try:
        return unstamped(path.read_bytes())
    except (OSError, ValueError):
        return None


def _wire_of_checkpoint(files: RunFolder) -> dict[str, Any]:
    """What wire.json said when a checkpoint was written; the file is then written again."""
    for path in _checkpoints(files):
        with suppress(Damaged):
            text = ArrayFile(path, FORMAT, HINT).words.get("wire", "")
            if text:
                files.write(WIRE, text.encode())
                files.log(f"{files.folder / WIRE}: is damaged or gone; written again from {path.name}")
                return unstamped(text.encode())
    raise Damaged(str(files.folder / WIRE), NOTHING, "is damaged, and no checkpoint tells what it said", HINT)


def _checkpoints(files: RunFolder) -> list[Path]:
    newest = files.folder / CHECKPOINT
    return [path for path in (newest, previous(newest)) if path.exists()]
