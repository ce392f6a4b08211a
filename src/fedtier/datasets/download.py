"""Downloads into the user's cache through pooch: each file once, its content's sha256 checked at every load."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Any

from ..errors import FedtierError
from .published import Published, hint_for

CHUNK = 1 << 18


def fetch(published: Published) -> dict[str, Path]:
    """The path in the cache of every file. Whole files are never fetched twice; a damaged one is replaced.

    Files are kept unpacked, so that one sha256 holds for every packing and a load need not unpack again.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    folder = Path(pooch.os_cache("fedtier")) / published.name
    paths = {name: folder / name for name in published.files}
    stale = [name for name, path in paths.items() if not _is_whole(path, published.files[name])]
    try:
        if stale and published.archive:
            _from_mirrors(published, lambda mirror: _fetch_archive(published, mirror, folder))
        else:
            for name in stale:
                _from_mirrors(published, lambda mirror, name=name: _fetch_file(published, mirror, name, folder))
    except OSError as error:
        raise FedtierError(
            "cache", str(folder), f"cannot be written ({error.strerror or error})", f"free the disk, or {hint_for(published)}"
        ) from error
    return paths


def _from_mirrors(published: Published, get: Any) -> None:
    from requests.exceptions import RequestException

    failures = []
    for mirror in published.mirrors:
        try:
            return get(mirror)
        except RequestException as error:
            reason = type(error).__name__ if error.response is None else f"HTTP {error.response.status_code}"
            failures.append(f"{mirror}: {reason}")
        except (ValueError, EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
            failures.append(f"{mirror}: not the published content ({error})")
    raise FedtierError(
        "data.name", published.name, f"could not be downloaded; {'; '.join(failures)}", f"offline? {hint_for(published)}"
    )


def _fetch_file(published: Published, mirror: str, name: str, folder: Path) -> None:
    import pooch

    def download(url: str, output_file: Any, pooch: Any) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            packed = Path(scratch) / "packed"
            _http(name)(url, str(packed), None)
            with _opened(packed) as source, open(output_file, "wb") as target:
                shutil.copyfileobj(source, target, CHUNK)

    unpacking: Any = download
    pooch.retrieve(mirror + name + published.packed, published.files[name], name, folder, downloader=unpacking)


def _fetch_archive(published: Published, mirror: str, folder: Path) -> None:
    """One pass over the archive; it stays in the cache until every file in it has been checked."""
    import pooch

    name = published.archive
    archive = Path(pooch.retrieve(mirror + name, None, name, folder, downloader=_http(name)))
    left = dict(published.files)
    try:
        with tarfile.open(archive, "r:*") as tar, tempfile.TemporaryDirectory(dir=folder) as scratch:
            for member in tar:
                inside = member.name.rpartition("/")[2]
                source = tar.extractfile(member) if inside in left and member.isfile() else None
                if source is None:
                    continue
                part = Path(scratch) / inside
                with source, part.open("wb") as target:
                    shutil.copyfileobj(source, target, CHUNK)
                if not _is_whole(part, left.pop(inside)):
                    raise ValueError(f"{inside} has another sha256")
                os.replace(part, folder / inside)
        if left:
            raise ValueError(f"no {', no '.join(left)} in {name}")
    except (ValueError, EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error):
        archive.unlink(missing_ok=True)
        raise
    archive.unlink(missing_ok=True)


def _is_whole(path: Path, sha256: str) -> bool:
    import pooch

    return path.is_file() and pooch.file_hash(str(path)) == sha256


def _opened(path: Path) -> Any:
    """Unpacked on the way, unless a server on the way has unpacked it already."""
    with path.open("rb") as file:
        return gzip.open(path) if file.read(2) == b"\x1f\x8b" else path.open("rb")  # pyright: ignore[reportReturnType]


def _http(name: str) -> Any:
    from pooch import HTTPDownloader

    def download(url: str, output_file: Any, pooch: Any) -> None:
        bar: Any = Bar(name)
        try:
            HTTPDownloader(progressbar=bar, chunk_size=CHUNK)(url, output_file, pooch)
        finally:
            bar.close()  # pooch closes it only when all went well

    return download


class Bar:
    """pooch's idea of a progress bar, drawn by rich on stderr; one plain line where there is no terminal."""

    def __init__(self, name: str) -> None:
        self.name, self.total = name, 0
        self.drawn: Any = None

    def update(self, count: int) -> None:
        if self.drawn is None:
            self.drawn = self._start()
        if self.drawn is not True:
            self.drawn.update(self.drawn.task_ids[0], advance=count)

    def _start(self) -> Any:
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
        if self.drawn not in (None, True):
            self.drawn.reset(self.drawn.task_ids[0])

    def close(self) -> None:
        if self.drawn not in (None, True):
            self.drawn.stop()
            self.drawn = True
