"""Where the files of a published data set are: in a folder of the user's, or in the cache, fetched once.

A folder (`data.folder`, else the environment variable FEDTIER_DATA) means that nothing is downloaded: what is missing
there is an error. Without one, files come from the publisher into the user's cache.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ..errors import FedtierError, require

VARIABLE = "FEDTIER_DATA"


class Published(NamedTuple):
    """A data set's files: names as unpacked, and the sha256 of that content, whatever the packing."""

    name: str
    files: dict[str, str]
    mirrors: tuple[str, ...]  # addresses to put `file + packed`, or `archive`, after; tried in order
    packed: str = ""  # the suffix of each file at the publisher
    archive: str = ""  # the one archive that holds all the files
    inner: str = ""  # the folder inside that archive


def locate(published: Published, folder: str | Path | None = None) -> dict[str, Path]:
    """The path of every file, from the folder if one is named, else from the cache (downloading what is not there)."""
    setting, root = chosen_folder(folder)
    if root is None:
        from .download import fetch

        return fetch(published)
    hint = hint_for(published) + "; with neither set they are downloaded"
    require(root.is_dir(), setting, str(root), "is not a folder", hint)
    found = {name: _find(root, published, name) for name in published.files}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise FedtierError(setting, str(root), f"holds no {', no '.join(missing)} for {published.name}", hint)
    return {name: path for name, path in found.items() if path is not None}


def chosen_folder(folder: str | Path | None) -> tuple[str, Path | None]:
    """(the setting that names the folder, the folder): the argument, else FEDTIER_DATA, else none."""
    if folder is not None:
        return "data.folder", Path(folder).expanduser()
    value = os.environ.get(VARIABLE, "")
    return VARIABLE, Path(value).expanduser() if value else None


def hint_for(published: Published) -> str:
    """What to put where, so that no network is needed."""
    files = ", ".join(published.files)
    packed = f" (or with {published.packed})" if published.packed else ""
    places = ", ".join(str(Path("DIR") / place) for place in _places(published))
    return f"set {VARIABLE} or data.folder to a folder DIR that holds {files}{packed} in one of {places}"


def _places(published: Published) -> list[Path]:
    """Sub-folders first: MNIST and Fashion-MNIST use the same file names."""
    inner = [Path(published.name) / published.inner, Path(published.inner)] if published.inner else []
    return [*inner, Path(published.name), Path()]


def _find(root: Path, published: Published, name: str) -> Path | None:
    for place in _places(published):
        for suffix in dict.fromkeys(("", published.packed)):
            path = root / place / (name + suffix)
            if path.is_file():
                return path
    return None
