"""A site in a process of its own, at the other end of a pipe: what dies there is started again, here nothing does.

Frames both ways: a number of 8 bytes that the answer repeats, the length in 8 bytes, the letter. The child ends when its
input does, so it never outlives its parent for longer than the letter in hand; the lock of its state folder keeps a
new child waiting until then.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

FRAME = struct.Struct("<QQ")
LAUNCHES = 5  # of a child for one letter; a letter that kills it as often is not tried again
MOST = 1 << 32  # bytes of a frame
STALL = 10.0  # seconds without a byte in the middle of a frame, after which the child is given up


class SolverProcess:
    """The parent's side: `answer` like a site's, from a child run by `command`, which calls `answer_letters`.

    A dead child is started again and gets the letter again, within the same call. A child that has not answered a letter after
    `hung` seconds is ended, and the next letter starts another. Use from any thread.
    """

    def __init__(self, command: Sequence[str], hung: float | None = None) -> None:
        self.command, self.hung = list(command), hung
        self.launches = 0
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._number = 0

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def begin(self) -> None:
        """Starts the child before there is a letter for it, so that it loads what it needs while others get ready."""
        with self._lock:
            self._running()

    def answer(self, letter: bytes, seconds: float | None = None) -> bytes | None:
        """The child's reply; None when none came within `seconds` (it is then dropped when it comes), when the child hung, or
        when the letter killed it again and again."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            if self.hung is not None:
                ends = time.monotonic() + self.hung
                reply = self._answer(letter, ends if until is None else min(until, ends))
                if reply is None and time.monotonic() >= ends:
                    self._bury()
                return reply
            return self._answer(letter, until)

    def _answer(self, letter: bytes, until: float | None) -> bytes | None:
        for _ in range(LAUNCHES):
            self._number += 1
            try:
                child = self._running()
                if not _write(child.stdin, self._number, letter, until):
                    return None
                return self._read(child, until)
            except (EOFError, OSError):
                self._bury()
        return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._bury()
            self._child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            assert self._child.stdin is not None
            os.set_blocking(self._child.stdin.fileno(), False)  # a child that is stopped reads nothing
            self.launches += 1
        return self._child

    def _read(self, child: subprocess.Popen[bytes], until: float | None) -> bytes | None:
        while True:
            head = _take(child.stdout, FRAME.size, until)
            if head is None:
                return None
            number, size = FRAME.unpack(head)
            letter = _take(child.stdout, size, time.monotonic() + STALL) if size <= MOST else None
            if letter is None:
                raise EOFError
            if number == self._number:  # else the late answer to a letter that nobody waits for
                return letter

    def _bury(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            self._child = None

    def close(self) -> None:
        """Ends the child."""
        with self._lock:
            self._bury()


def answer_letters(answer: Callable[[bytes], bytes]) -> None:
    """The child's side: answers the letters of standard input on standard output until input ends.

    Whatever else prints goes to standard error from here on, so that no chatty library breaks a frame.
    """
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    source = sys.stdin.buffer
    while True:
        head = source.read(FRAME.size)
        if len(head) < FRAME.size:
            return
        number, size = FRAME.unpack(head)
        if size > MOST:
            return
        letter = source.read(size)
        if len(letter) < size:
            return
        try:
            _write(replies, number, answer(letter))
        except BrokenPipeError:
            return


def _write(pipe: IO[bytes] | None, number: int, letter: bytes, until: float | None = None) -> bool:
    """Writes a frame; False when the time is over before its first byte could be written."""
    assert pipe is not None
    frame = memoryview(FRAME.pack(number, len(letter)) + letter)
    rest = frame
    while rest:
        if not select.select([], [pipe], [], _left(until, len(rest) < len(frame)))[1]:
            if len(rest) < len(frame):
                raise EOFError  # half a frame: nothing after it could be understood
            return False
        rest = rest[pipe.write(rest) or 0 :]
    return True


def _take(pipe: IO[bytes] | None, size: int, until: float | None) -> bytes | None:
    """Exactly `size` bytes; None when the time is over before the first; EOFError when the other end is gone."""
    assert pipe is not None
    parts: list[bytes] = []
    while size:
        if not select.select([pipe], [], [], _left(until, bool(parts)))[0]:
            if parts:
                raise EOFError
            return None
        part = os.read(pipe.fileno(), min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _left(until: float | None, begun: bool) -> float | None:
    """Seconds to wait: a frame that has begun is on its way and gets a little longer."""
    if until is None:
        return None
    return max(STALL if begun else 0.0, until - time.monotonic())
