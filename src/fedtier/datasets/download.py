"""Downloads into the user's cache through pooch: each file once, its content's checksum compared at every load."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import FedtierError
from .archives import unpack
from .published import CHUNK, Published, digest_of, git_id_of, hint_for, sha256_of

if TYPE_CHECKING:  # loaded where something is fetched
    from pooch import Pooch
    from rich.progress import Progress

RECORDED = "checksums.json"  # in the cache: of files whose sha256 was not known before their first download
DAMAGED = (ValueError, EOFError, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error)


def fetch(published: Published) -> dict[str, Path]:
    """The path in the cache of every file. Whole files are never fetched twice; a damaged one is replaced.

    Files are kept unpacked, so that one checksum holds for every packing and a load need not unpack again.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    folder = Path(pooch.os_cache("fedtier")) / published.name
    try:
        if published.many is not None:
            return _fetch_many(published, folder)
        stale = [name for name, checksum in published.files.items() if not _is_whole(folder / name, checksum)]
        if stale and published.archive:
            _from_mirrors(published, lambda mirror: _fetch_archive(published, mirror, folder))
        else:
            for name in stale:
                _from_mirrors(published, lambda mirror, name=name: _fetch_file(published, mirror, name, folder))
    except OSError as error:
        raise FedtierError(
            "cache", str(folder), f"cannot be written ({error.strerror or error})", f"free the disk, or {hint_for(published)}"
        ) from error
    return {name: folder / name for name in published.files}


def _from_mirrors(published: Published, get: Callable[[str], None]) -> None:
    from requests.exceptions import RequestException

    failures = []
    for mirror in published.mirrors:
        try:
            return get(mirror)
        except RequestException as error:
            reason = type(error).__name__ if error.response is None else f"HTTP {error.response.status_code}"
            failures.append(f"{mirror}: {reason}")
        except DAMAGED as error:
            failures.append(f"{mirror}: not the published content ({error})")
    raise FedtierError(
        "name", published.name, f"could not be downloaded; {'; '.join(failures)}", f"offline? {hint_for(published)}"
    )


def _fetch_file(published: Published, mirror: str, name: str, folder: Path) -> None:
    import pooch

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        packed = Path(pooch.retrieve(mirror + name + published.packed, None, "packed", scratch, downloader=_http(name)))  # pyright: ignore[reportArgumentType]  it is given these three
        part = Path(scratch) / "unpacked"
        with _opened(packed) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        _keep(part, packed, folder / name, published.files[name])


def _fetch_archive(published: Published, mirror: str, folder: Path) -> None:
    with _archive(published, mirror, folder) as scratch:
        found = {path.name: path for path in unpack(scratch / "archive", lambda name: name in published.files, scratch)}
        absent = [name for name in published.files if name not in found]
        if absent:
            raise ValueError(f"no {', no '.join(absent)} in {published.archive}")
        for name, checksum in published.files.items():
            _keep(found[name], found[name], folder / name, checksum)


def _fetch_many(published: Published, folder: Path) -> dict[str, Path]:
    """All files of one kind: compared, kept and fetched together."""
    many = published.many
    assert many is not None

    def known() -> dict[str, Path]:
        return {path.name: path for path in sorted(folder.glob(f"*{many.suffix}"))}

    def get(mirror: str) -> None:
        with _archive(published, mirror, folder) as scratch:
            found = unpack(scratch / "archive", lambda name: name.endswith(many.suffix), scratch)
            if len(found) != many.count or digest_of(found) != many.digest:
                raise ValueError(f"its {len(found)} files {many.suffix} have another checksum")
            for path in found:
                os.replace(path, folder / path.name)

    if len(known()) != many.count or digest_of(known().values()) != many.digest:
        for path in known().values():
            path.unlink()
        _from_mirrors(published, get)
    return known()


@contextmanager
def _archive(published: Published, mirror: str, folder: Path) -> Iterator[Path]:
    """A folder inside the cache that holds the archive and is gone afterwards."""
    import pooch

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pooch.retrieve(mirror + published.archive, None, "archive", scratch, downloader=_http(published.archive))  # pyright: ignore[reportArgumentType]
        yield Path(scratch)


def _keep(part: Path, served: Path, path: Path, checksum: str) -> None:
    """Moves a file to its place in the cache if it has its checksum; `served` is the same file as it came."""
    if checksum.startswith("git:"):
        if git_id_of(served) != checksum.removeprefix("git:"):
            raise ValueError(f"{path.name} has another git id")
    elif checksum and sha256_of(part) != checksum:
        raise ValueError(f"{path.name} has another sha256")
    if not checksum or checksum.startswith("git:"):
        _record(path, sha256_of(part), trusted=not checksum)
    os.replace(part, path)


def _record(path: Path, sha256: str, *, trusted: bool) -> None:
    """Writes down what a file's content is from now on; refuses another content than was written down before."""
    known = _recorded(path.parent)
    if known.get(path.name, sha256) != sha256:
        raise ValueError(f"{path.name} is not what was downloaded first, see {path.parent / RECORDED}")
    if trusted and path.name not in known:
        words = f"{path.name}: its checksum is not known to fedtier; sha256 {sha256} is trusted and written down"
        print(words, file=sys.stderr, flush=True)
    (path.parent / RECORDED).write_text(json.dumps(known | {path.name: sha256}, indent=1) + "\n", encoding="utf-8")


def _recorded(folder: Path) -> dict[str, str]:
    try:
        return json.loads((folder / RECORDED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _is_whole(path: Path, checksum: str) -> bool:
    known = checksum if checksum and not checksum.startswith("git:") else _recorded(path.parent).get(path.name)
    return path.is_file() and known is not None and sha256_of(path) == known


def _opened(path: Path) -> BufferedIOBase:
    """Unpacked on the way, unless a server on the way has unpacked it already."""
    with path.open("rb") as file:
        return gzip.open(path) if file.read(2) == b"\x1f\x8b" else path.open("rb")


def _http(name: str) -> Callable[[str, str, Pooch], None]:
    from pooch import HTTPDownloader

    def download(url: str, output_file: str, pooch: Pooch) -> None:
        bar = Bar(name)
        try:
            HTTPDownloader(progressbar=bar, chunk_size=CHUNK)(url, output_file, pooch)  # pyright: ignore[reportArgumentType]  any bar
        finally:
            bar.close()  # pooch closes it only when all went well

    return download


class Bar:
    """pooch's idea of a progress bar, drawn by rich on stderr; one plain line where there is no terminal."""

    def __init__(self, name: str) -> None:
        self.name, self.total = name, 0
        self.drawn: Progress | Literal[True] | None = None

    def update(self, count: int) -> None:
        if self.drawn is None:
            self.drawn = self._start()
        if self.drawn is not True:
            self.drawn.update(self.drawn.task_ids[0], advance=count)

    def _start(self) -> Progress | Literal[True]:
        if not sys.stderr.isatty():
            size = f" ({self.total / 1e6:.1f} MB)" if self.total else ""
            print(f"fetching {self.name}{size}", file=sys.stderr, flush=True)
            return True
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        drawn = Progress(*columns, console=Console(stderr=True))
        drawn.add_task(f"fetching {self.name}", total=self.total or None)
        drawn.start()
        return drawn

    def reset(self) -> None:
        if not (self.drawn is None or self.drawn is True):
            self.drawn.reset(self.drawn.task_ids[0])

    def close(self) -> None:
        if not (self.drawn is None or self.drawn is True):
            self.drawn.stop()
            self.drawn = True
