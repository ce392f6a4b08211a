"""What a run's folder says, read again only where a file has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import safetensors

T = TypeVar("T")
TAIL = 200_000  # bytes of a log or record that are looked at


class Cache:
    """Values made from files, kept while the files stay as they are."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Path], tuple[object, Any]] = {}

    def get(self, what: str, path: Path, make: Callable[[Path], T]) -> T:
        """`make(path)`, made anew when the file's time or size is another; `what` names the value among those of one file."""
        mark = signature(path)
        known = self._kept.get((what, path))
        if known is None or known[0] != mark:
            known = mark, make(path)
            self._kept[what, path] = known
        return known[1]


def signature(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def modified(*paths: Path) -> float | None:
    """When the youngest of the files that are there was written, in seconds since the epoch."""
    times = [mark[1] / 1e9 for path in paths if (mark := signature(path)) is not None]
    return max(times, default=None)


def is_held(lock: Path) -> bool:
    """Whether some process holds the lock file. Asks for a shared lock and gives it back at once, because only the system
    knows: a process number in the file may be of another process by now, or of another container."""
    import fcntl

    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def tail_lines(path: Path, most: int = TAIL) -> list[str]:
    """The last whole lines of a file that grows."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return []
    lines = data.decode(errors="replace").split("\n")[:-1]
    return lines[1:] if size > most else lines


def header_words(path: Path) -> dict[str, str]:
    """The words in the header of a checkpoint; none where it cannot be read now. Whoever resumes the run judges it."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except Exception:  # the parser raises many types
        return {}


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none that can be read now."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
