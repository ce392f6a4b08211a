"""What is known of a published data set's files: their names, their checksums, where they are served."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

VARIABLE = "FEDTIER_DATA"


class Published(NamedTuple):
    """A data set's files: names as unpacked, and the sha256 of that content, whatever the packing."""

    name: str
    files: dict[str, str]
    mirrors: tuple[str, ...]  # addresses to put `file + packed`, or `archive`, after; tried in order
    packed: str = ""  # the suffix of each file at the publisher
    archive: str = ""  # the one archive that holds all the files
    inner: str = ""  # the folder inside that archive


def hint_for(published: Published) -> str:
    """What to put where, so that no network is needed."""
    files = ", ".join(published.files)
    packed = f" (or with {published.packed})" if published.packed else ""
    where = ", ".join(str(Path("DIR") / place) for place in places(published))
    return f"set {VARIABLE} or data.folder to a folder DIR that holds {files}{packed} in one of {where}"


def places(published: Published) -> list[Path]:
    """Sub-folders first: MNIST and Fashion-MNIST use the same file names."""
    inner = [Path(published.name) / published.inner, Path(published.inner)] if published.inner else []
    return [*inner, Path(published.name), Path()]
