"""Files that are written whole or not at all, and refusals of the system in words that say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ..errors import NOTHING, FedtierError

T = TypeVar("T")


class Damaged(FedtierError):
    """A file that is not what was written: changed, cut short, or gone."""


def write_whole(target: Path, data: bytes | bytearray, *, keep_previous: bool = False) -> None:
    """The whole file or the old one: temporary file, fsync, rename, fsync of the folder. With `keep_previous` the old one stays
    beside it, for `read_generations`."""
    partial = target.with_name(f".{target.name}.part")
    with told(target):
        try:
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if keep_previous and target.exists():
                _keep(target)
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


def _keep(target: Path) -> None:
    """Makes `target` the previous generation; where the system has no hard links there is for a moment no other."""
    link = target.with_name(f".{target.name}.link")
    link.unlink(missing_ok=True)
    try:
        os.link(target, link)
    except OSError:
        target.replace(previous(target))
    else:
        link.replace(previous(target))


def previous(path: Path) -> Path:
    """Where the generation before the newest of a file lies."""
    return path.with_name(f"previous-{path.name}")


def read_generations(path: Path, read: Callable[[Path], T], say: Callable[[str], None]) -> T | None:
    """`read(path)`; where that is Damaged, the previous generation, after a line to `say`, and what was newest is set aside.
    None where there is neither file; Damaged where neither is good, and then nothing is touched."""
    older = previous(path)
    if not path.exists() and not older.exists():
        return None
    try:
        return read(path)
    except Damaged as error:
        newest = error
    try:
        found = read(older)
    except Damaged as error:
        rule = f"{newest.rule}; the generation before it, {older.name}: {error.rule}"
        raise Damaged(newest.name, newest.value, rule, newest.hint) from None
    say(f"{newest.name}: {newest.rule}; goes on from {older.name}" + set_aside(path))
    return found


def set_aside(*paths: Path) -> str:
    """Renames what is there of `paths` to broken-NAME, the latest one of that name; a few words that say so."""
    moved = [path.replace(path.with_name(f"broken-{path.name}")).name for path in paths if path.exists()]
    return f" (kept as {', '.join(moved)})" if moved else ""


def make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise FedtierError(str(folder), NOTHING, "is a file, not a folder", "choose another folder")
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def folder_for(folder: Path | None) -> Iterator[None]:
    """Makes the folder, if any, for what is done inside. Where that fails and left it empty, what was made goes again."""
    if folder is None:
        yield
        return
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    make_folder(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty
            for one in made:
                one.rmdir()
        raise


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
