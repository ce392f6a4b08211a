"""Archives as publishers pack them: tar or zip, and zip inside zip. Only files that are asked for are unpacked, flat."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from .published import CHUNK


def unpack(archive: Path, wanted: Callable[[str], bool], folder: Path) -> list[Path]:
    """The files of an archive whose plain name is wanted, written into `folder` under that name."""
    if zipfile.is_zipfile(archive):
        return _unzip(archive, wanted, folder)
    found = []
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            name = member.name.rpartition("/")[2]
            source = tar.extractfile(member) if member.isfile() and wanted(name) else None
            if source is not None:
                found.append(_written(source, folder / name))
    return found


def _unzip(archive: Path, wanted: Callable[[str], bool], folder: Path) -> list[Path]:
    found = []
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            name = member.filename.rpartition("/")[2]
            if name.endswith(".zip"):
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    inside = _written(content.open(member), Path(scratch) / "inside.zip")
                    found += _unzip(inside, wanted, folder)
            elif name and not member.filename.startswith("__MACOSX") and wanted(name):
                found.append(_written(content.open(member), folder / name))
    return found


def _written(source: object, path: Path) -> Path:
    with source, path.open("wb") as target:  # pyright: ignore[reportGeneralTypeIssues, reportAttributeAccessIssue]
        shutil.copyfileobj(source, target, CHUNK)  # pyright: ignore[reportArgumentType]
    return path
