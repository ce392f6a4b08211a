"""What is known of a published data set's files: their names, their checksums, where they are served."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

VARIABLE = "FEDTIER_DATA"
CHUNK = 1 << 18


class Published(NamedTuple):
    """A data set's files.

    A checksum is the sha256 of a file's content, unpacked, whatever the packing. Where we have never had the content, it is
    "git:" and the id that git gives to the file as it is served; or "", and then the first download is trusted, aloud, and
    its sha256 written down, which every later copy must have.
    """

    name: str
    files: dict[str, str]  # name as unpacked -> checksum
    mirrors: tuple[str, ...]  # addresses to put `file + packed`, or `archive`, after; tried in order
    packed: str = ""  # the suffix of each file at the publisher
    archive: str = ""  # the one archive that holds all the files, perhaps inside another
    inner: str = ""  # the folder inside that archive
    many: Many | None = None  # instead of `files`: too many to name


class Many(NamedTuple):
    """All files of one kind in an archive, checked together."""

    suffix: str
    count: int
    digest: str  # see `digest_of`


def digest_of(files: Iterable[Path]) -> str:
    """The sha256 of the lines "NAME SHA256" of these files, ordered by name."""
    lines = (f"{path.name} {sha256_of(path)}\n" for path in sorted(files, key=lambda path: path.name))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_id_of(path: Path) -> str:
    """The name under which git keeps a file of this content."""
    content = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            content.update(part)
    return content.hexdigest()


def hint_for(published: Published) -> str:
    """What to put where, so that no network is needed."""
    many = published.many
    files = f"its {many.count:,} files {many.suffix}" if many else ", ".join(published.files)
    packed = f" (or with {published.packed})" if published.packed else ""
    where = ", ".join(str(Path("DIR") / place) for place in places(published))
    return f"set {VARIABLE} or `folder` to a folder DIR that holds {files}{packed} in one of {where}"


def places(published: Published) -> list[Path]:
    """Sub-folders first: MNIST and Fashion-MNIST use the same file names."""
    inner = [Path(published.name) / published.inner, Path(published.inner)] if published.inner else []
    return [*inner, Path(published.name), Path()]
