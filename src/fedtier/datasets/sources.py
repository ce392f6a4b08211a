"""Where the files of a published data set are: in a folder of the user's, or in the cache, fetched once.

A folder (the argument `folder`, else the environment variable FEDTIER_DATA) means that nothing is downloaded: what is missing
there is an error. Without one, files come from the publisher into the user's cache.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import FedtierError, require
from .download import fetch
from .published import VARIABLE, Published, hint_for, places


def locate(published: Published, folder: str | Path | None = None) -> dict[str, Path]:
    """The path of every file, from the folder if one is named, else from the cache (downloading what is not there)."""
    setting, root = chosen_folder(folder)
    if root is None:
        return fetch(published)
    hint = hint_for(published) + "; with neither set they are downloaded"
    require(root.is_dir(), setting, str(root), "is not a folder", hint)
    if published.many is not None:
        return _all(root, published, setting, hint)
    found = {name: _find(root, published, name) for name in published.files}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise FedtierError(setting, str(root), f"holds no {', no '.join(missing)} for {published.name}", hint)
    return {name: path for name, path in found.items() if path is not None}


def chosen_folder(folder: str | Path | None) -> tuple[str, Path | None]:
    """(the setting that names the folder, the folder): the argument, else FEDTIER_DATA, else none."""
    if folder is not None:
        return "folder", Path(folder).expanduser()
    value = os.environ.get(VARIABLE, "")
    return VARIABLE, Path(value).expanduser() if value else None


def _find(root: Path, published: Published, name: str) -> Path | None:
    for place in places(published):
        for suffix in dict.fromkeys(("", published.packed)):
            path = root / place / (name + suffix)
            if path.is_file():
                return path
    return None


def _all(root: Path, published: Published, setting: str, hint: str) -> dict[str, Path]:
    suffix = published.many.suffix if published.many else ""
    for place in places(published):
        found = sorted((root / place).glob(f"*{suffix}"))
        if found:
            return {path.name: path for path in found}
    raise FedtierError(setting, str(root), f"holds no {suffix} files for {published.name}", hint)
