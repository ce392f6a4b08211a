"""The user's own data: a `.npz` file, a `.csv` or `.parquet` table, or a folder of images by class."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FedtierError, nearest
from . import image_folder, tables
from .dataset import Dataset, as_inputs, standardisation
from .labels import encode
from .sources import chosen_folder

SAVEZ = "numpy.savez(FILE, inputs=..., labels=...) writes a .npz"
INPUTS, LABELS = ("inputs", "x"), ("labels", "y")


def from_file(
    file: str | Path | None = None,
    *,
    folder: str | Path | None = None,
    label: str = "label",
    owner: str | None = None,
    image_size: int | None = None,
) -> Dataset:
    """The data set in `file`; a relative path is looked for here first, then in the data folder.

    shift and scale standardise it (see `standardisation`; `dataset._replace(shift=0, scale=1)` undoes that).
    """
    path = _path(file, folder)
    if path.is_dir():
        inputs, labels, names = image_folder.read_images(path, image_size)
        owners, columns = None, ()
    else:
        inputs, labels, owners, columns = read_table(path, label, owner, image_size)
        labels, names = encode(_named(path, "labels"), labels, len(inputs), least=2)
    codes, owner_names = (None, ()) if owners is None else encode(_named(path, "owners"), owners, len(inputs))
    shift, scale = standardisation(inputs)
    return Dataset(path.stem, inputs, labels, names, codes, owner_names, shift, scale, columns=columns)


def read_table(
    path: Path, label: str = "label", owner: str | None = None, image_size: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """(inputs, labels as they are written, owners, names of the columns) of a file or a folder of images."""
    if path.is_dir():
        inputs, labels, names = image_folder.read_images(path, image_size)
        return inputs, np.asarray(names)[labels], None, ()
    if image_size is not None:
        raise FedtierError("data.image_size", image_size, f"is for a folder of images, but {path} is a file", "leave it out")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = f"must end in {', '.join(READERS)} or be a folder of images"
        raise FedtierError("data.file", str(path), known, SAVEZ)
    inputs, labels, owners, columns = reader(path, label, owner)
    return as_inputs(_named(path, "inputs"), inputs, columns), labels, owners, columns


def _path(file: str | Path | None, folder: str | Path | None) -> Path:
    if file is None:
        raise FedtierError("data.file", None, "must be given when data.name is 'file'", "a .npz, .csv, .parquet or a folder")
    _, root = chosen_folder(folder)
    here = Path(file).expanduser()
    places = [here] if root is None or here.is_absolute() else [here, root / here]
    for place in places:
        if place.exists():
            return place
    looked = " and ".join(str(place.absolute()) for place in places)
    raise FedtierError("data.file", str(file), f"is not there (looked for {looked})", _siblings(here))


def _siblings(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    close = nearest(path.name, [entry.name for entry in folder.iterdir()])
    return close if close.startswith("did") else "give the path from the current folder, or an absolute one"


def _named(path: Path, part: str) -> str:
    return f"{path.name}: {part}"


def _npz(path: Path, label: str, owner: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Arrays `inputs` (or x), `labels` (or y, or the name in data.label) and `owner` (or the name in data.owner)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise FedtierError("data.file", str(path), "is a single array, not a .npz", SAVEZ)
            inputs = _array(file, path, INPUTS, "inputs")
            labels = _array(file, path, (label, *LABELS), "labels")
            if owner is not None:
                return inputs, labels, _array(file, path, (owner,), "owner"), ()
            return inputs, labels, file["owner"] if "owner" in file.files else None, ()
    except FedtierError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        pickled = "allow_pickle" in str(error)
        rule = "holds Python objects, which are never unpickled" if pickled else f"is not an intact .npz file ({error})"
        hint = "save plain arrays of numbers or strings" if pickled else "save or copy it again"
        raise FedtierError("data.file", str(path), rule, hint) from error


def _array(file: Any, path: Path, names: tuple[str, ...], what: str) -> np.ndarray:
    for name in names:
        if name in file.files:
            return file[name]
    wanted = " or ".join(repr(name) for name in dict.fromkeys(names))
    raise FedtierError(f"data.{what}", str(path), f"has no array {wanted}", f"it has: {', '.join(file.files) or 'no arrays'}")


READERS = {".npz": _npz, ".csv": tables.read_csv, ".parquet": tables.read_parquet}
