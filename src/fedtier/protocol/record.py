"""What came and went, in a record that is only ever appended to: one JSON line for each letter and each reply.

    {"line": 7, "time": "...", "way": "in", "who": "server", "kind": "ROUND", "run": "...", "round": 3, "bytes": 31504,
     "sha256": "...", "before": "..."}

`sha256` is that of the bytes as they crossed, seal included, so that the records of a server and of a site can be held against
each other. `before` is the SHA-256 of the line before: a line that is changed, removed or put in breaks the chain
(`verify_record`, `fedtier record`). Lines cut off at the end are missed only by who has noted the last hash elsewhere, or by
comparison with the record of the other end (`audit`).
A file of MOST bytes is set aside and the next one goes on with the chain; of those set aside the latest KEEP stay.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import NOTHING, FedtierError, require
from ..storage.files import told
from ..storage.json_value import Json

FILE = "record.jsonl"
START = "0" * 64  # `before` of the very first line
MOST = 8_000_000  # bytes of a file
KEEP = 8  # files set aside
LONGEST = 4096  # bytes of a line
HINT = "the lines before it hold; keep the file as it is and compare with the other end: `fedtier record DIR --against OTHER`"


class Record:
    """The record in `folder`, which one process at a time may have open."""

    def __init__(self, folder: Path, *, durable: bool = True, most: int = MOST, keep: int = KEEP) -> None:
        """With `durable` each line is on disk before `add` returns; without, after a power cut the last ones may be missing."""
        self.folder, self.durable, self.most, self.keep = folder, durable, most, keep
        self.path = folder / FILE
        self.refusals = 0
        self._lines, self._last = 0, START
        with told(self.path):
            cut = self._mend()
            try:
                self._recall()
            except (FedtierError, IndexError):
                moved = self._move_away()
                self.add(("broken", {"files": moved}))
        if cut:
            self.add(("cut", {"bytes": cut}))

    def add(self, *entries: tuple[str, Mapping[str, Json]]) -> None:
        """Appends a line for each (way, what it says)."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        lines, last, number = b"", self._last, self._lines
        for way, said in entries:
            line = json.dumps({"line": number, "time": now, "way": way, **said, "before": last}).encode()
            number, last, lines = number + 1, hashlib.sha256(line).hexdigest(), lines + line + b"\n"
        with told(self.path):
            size = self._append(lines)
            self._lines, self._last = number, last
            if size >= self.most:
                self._set_aside()

    def _append(self, lines: bytes) -> int:
        """All of `lines` or nothing; the size of the file."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, lines) < len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self.durable:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
            return before + len(lines)
        finally:
            os.close(descriptor)

    def refuse(self, letter: bytes) -> None:
        """Notes the 1st, 2nd, 4th, 8th, ... letter whose signature does not hold: a flood must not push the rest out."""
        self.refusals += 1
        if self.refusals.bit_count() == 1:
            self.add(("refused", {"count": self.refusals} | digest(letter)))

    def _set_aside(self) -> None:
        self.path.rename(self.folder / f"record-{self._lines:012d}.jsonl")
        for old in _set_aside(self.folder)[: -self.keep]:
            old.unlink()

    def _mend(self) -> int:
        """Cuts off a last line that a crash left unfinished; how many bytes."""
        if not self.path.exists():
            return 0
        with open(self.path, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            tail = _tail(file, size)
            cut = len(tail) - (tail.rfind(b"\n") + 1)
            if cut:
                file.truncate(size - cut)
                os.fsync(file.fileno())
        return cut

    def _recall(self) -> None:
        """Where the chain stands."""
        for path in [self.path, *reversed(_set_aside(self.folder))]:
            if path.exists() and path.stat().st_size:
                with open(path, "rb") as file:
                    last = _tail(file, file.seek(0, os.SEEK_END)).split(b"\n")[-2]
                self._lines, self._last = _number(path, last) + 1, hashlib.sha256(last).hexdigest()
                return

    def _move_away(self) -> list[str]:
        """A record that cannot be gone on with is kept beside the new one, which says so in its first line."""
        moved = []
        for path in [*_set_aside(self.folder), self.path]:
            if path.exists():
                path.rename(path.with_name(f"broken-{time.time_ns()}-{path.name}"))
                moved.append(path.name)
        return moved


def digest(data: bytes) -> dict[str, int | str]:
    """A line's words on the bytes that crossed."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


class Line(NamedTuple):
    """A line of a record that follows from the one before it."""

    place: str  # its file, and which line of it
    number: int  # in the whole record
    said: dict[str, Json]
    digest: str


class Verified(NamedTuple):
    """What a whole record tells."""

    first: int  # number of the first line that is still kept
    lines: int
    letters: int  # lines of letters and replies that crossed
    refused: int  # lines of refused ones
    last: str  # hash of the last line: note it elsewhere, and lines cut off at the end are missed


def read_record(folder: Path) -> list[Line]:
    """The lines of the whole record, oldest first; FedtierError names the first that does not follow from the one before it."""
    files = [path for path in [*_set_aside(folder), folder / FILE] if path.exists()]
    require(bool(files), "DIR", str(folder), "holds no record", "a site's state folder, or the folder of a run between sites")
    lines: list[Line] = []
    for path in files:
        with open(path, "rb") as file:
            for k, line in enumerate(file, 1):
                lines.append(_followed(f"{path}, line {k}", line, lines))
    return lines


def verify_record(folder: Path) -> Verified:
    """Reads the whole record; FedtierError names the first line that does not follow from the one before it."""
    lines = read_record(folder)
    ways = [line.said.get("way") for line in lines]
    crossed, refused = sum(way in ("in", "out") for way in ways), ways.count("refused")
    first, last = (lines[0].number, lines[-1].digest) if lines else (0, START)
    return Verified(first, len(lines), crossed, refused, last)


def _followed(place: str, line: bytes, before: list[Line]) -> Line:
    require(line.endswith(b"\n"), place, NOTHING, "is cut short", HINT)
    text = line[:-1]
    try:
        said = json.loads(text)
        number, told = int(said["line"]), str(said["before"])
    except (ValueError, KeyError, TypeError) as error:
        raise FedtierError(place, NOTHING, f"is damaged: {error!r}", HINT) from None
    if before:
        follows = number == before[-1].number + 1 and told == before[-1].digest
        require(follows, place, NOTHING, "does not follow from the line before it", HINT)
    else:
        require(number > 0 or told == START, place, NOTHING, "is not the first line of a record", HINT)
    return Line(place, number, said, hashlib.sha256(text).hexdigest())


def _set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("record-*.jsonl"))


def _tail(file: BinaryIO, size: int) -> bytes:
    file.seek(max(0, size - 2 * LONGEST))
    return file.read()


def _number(path: Path, line: bytes) -> int:
    try:
        return int(json.loads(line)["line"])
    except (ValueError, KeyError, TypeError) as error:
        raise FedtierError(str(path), NOTHING, f"is damaged: {error!r}") from None
