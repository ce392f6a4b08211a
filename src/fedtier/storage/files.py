"""Files that are written whole or not at all, and refusals of the system in words that say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import NOTHING, FedtierError


def write_whole(target: Path, data: bytes) -> None:
    """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
    partial = target.with_name(f".{target.name}.part")
    with told(target):
        try:
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            with suppress(OSError):  # it may never have been there
                partial.unlink()
            raise


def make_folder(folder: Path) -> None:
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)


def make_private(folder: Path) -> None:
    """A folder that nobody but its owner may open, also where it was there before."""
    make_folder(folder)
    with told(folder):
        folder.chmod(0o700)


def close_to_others(folder: Path) -> None:
    """Takes all rights from others than the owner, on the folder and on everything in it."""
    with told(folder):
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o700)


@contextmanager
def private_files() -> Iterator[None]:
    """What is made meanwhile, in this process and in those it starts, is for its owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What the system refuses, as a FedtierError with a hint."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        hint = "what was written before is whole; free space, then resume" if full else "choose another folder"
        raise FedtierError(str(path), NOTHING, f"cannot be written: {error.strerror}", hint) from None


class Lock:
    """A lock file that one process holds at a time; the system frees it when that process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self, *, wait: bool = False) -> str | None:
        """Takes the lock, waiting for it if asked to. None when it is held now, else the number of the process that has it."""
        import fcntl

        with told(self.path):
            descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "?"
            os.close(descriptor)
            return holder
        with suppress(OSError):  # a full disk: the lock holds, only the number is not told
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return None

    def free(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
