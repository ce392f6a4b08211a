"""What a source holds, before it is a data set: features, labels, owners and weights, each as it stands there."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.npyio import NpzFile

from ..errors import FedtierError, nearest, require
from . import image_folder
from .dataset import as_inputs
from .delimited import MISSING_EVERYWHERE, read_delimited
from .frames import ARROW, is_frame, read_arrow, read_frame
from .suspicions import checked
from .table import (
    MISSING,
    NOWHERE,
    Column,
    Table,
    Words,
    as_words,
    column_of,
    settled,
    taken_for_missing,
    texts_of,
    unsettled,
)
from .text_form import ENDINGS, is_delimited

SAVEZ = "numpy.savez(FILE, inputs=..., labels=...) writes a .npz"
UNNAMED = "label"  # what the label is called where nobody names it
INPUTS, LABELS = ("inputs", "x"), ("labels", "y")


class Content(NamedTuple):
    """What a source holds, before it is a data set."""

    rows: Table | np.ndarray  # the features: a table, or an array [N, ...]
    label: Column
    owner: Column | None
    weight: Column | None
    notes: tuple[str, ...] = ()
    decimal: str = ""  # as in Table
    gone: Mapping[str, Mapping[str, int]] = NOWHERE  # likewise


class Spelling(NamedTuple):
    """How cells of text are to be taken."""

    decimal: str = ""  # before decimals, where a column does not say: "," or "."
    missing_words: Sequence[str] | None = None  # for a missing label or owner, besides the empty cell; None: the usual ones

    def empty(self, names: Iterable[str | None]) -> dict[str, frozenset[str]]:
        """The words that stand for missing, by column."""
        if self.missing_words is None:
            return {}
        return {name: frozenset(("", *(text.strip().lower() for text in self.missing_words))) for name in names if name}


class Choose(NamedTuple):
    """Which columns are features, and how they are taken."""

    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    categories: Sequence[str] = ()


def read(
    source: object,
    *,
    label: str = "label",
    owner: str | None = None,
    weight: str | None = None,
    choose: Choose | None = None,
    header: bool = True,
    image_size: int | None = None,
    spelling: Spelling | None = None,
) -> Content:
    """The features, labels, owners and weights of a path or a frame, as they are."""
    choose, spelling = choose or Choose(), spelling or Spelling()
    if isinstance(source, Path) and source.is_dir():
        return _images(source, image_size, owner)
    if image_size is not None:
        raise FedtierError("image_size", image_size, f"is for a folder of images, but {source} is none", "leave it out")
    if isinstance(source, Path) and source.suffix.lower() == ".npz":
        return _arrays(source, label, owner, weight, choose, spelling)
    special = {key: name for key, name in (("label", label), ("owner", owner), ("weight", weight)) if name is not None}
    texts, empty = {*special.values(), *choose.categories} - {weight}, spelling.empty((label, owner))
    table = read_table(source, texts, header=header, decimal=spelling.decimal, empty=empty)
    for key, name in special.items():
        known = name in table.columns
        require(known, key, name, "is not a column of the table", nearest(name, table.columns))
        once = name not in table.twice
        require(once, key, name, "is the name of two columns, so it is not known which one is meant", "rename one")
    distinct = len(set(special.values())) == len(special)
    require(distinct, "owner", owner, "label, owner and weight must be three different columns")
    features = checked(_features(table, set(special.values()), choose), choose.categories)
    owners, weights = (table.columns[name] if name else None for name in (owner, weight))
    return Content(features, table.columns[label], owners, weights, table.notes, table.decimal, table.gone)


def read_array(path: Path, label: str = "label", image_size: int | None = None) -> tuple[np.ndarray, Column]:
    """(the rows as they are stored, their labels) of an .npz or a folder of images."""
    if path.is_dir():
        found = image_folder.read_images(path, image_size)
        return found.inputs, found.labels
    require(path.suffix.lower() == ".npz", "data", str(path), "must be an .npz or a folder of images, as at the server")
    with _npz(path) as file:
        inputs, labels = _array(file, path, INPUTS, "inputs"), _array(file, path, _label_names(label), "label")
    return as_inputs(f"{path.name}: inputs", inputs), _one_each(path, "labels", labels, len(inputs))


def read_unlabelled(
    path: Path, label: str, shape: tuple[int, ...], image_size: int | None = None
) -> tuple[Table | np.ndarray, Column | None]:
    """(the rows, their labels if they have some) of an .npz, an .npy or a folder of images, with or without classes."""
    if path.is_dir():
        return image_folder.read_alike(path, shape, image_size)
    if path.suffix.lower() == ".npy":
        with _intact(path):
            return np.asarray(np.load(path, allow_pickle=False)), None
    with _npz(path) as file:
        inputs = _array(file, path, INPUTS, "inputs")
        found = next((file[name] for name in (label, *LABELS) if name in file.files), None)
        names = file["columns"].astype(str).tolist() if "columns" in file.files else None
    labels = None if found is None else _one_each(path, "labels", found, len(inputs))
    if names is None or inputs.ndim != 2:
        return inputs, labels
    require(len(names) == inputs.shape[1], f"{path.name}: columns", len(names), f"must name the {inputs.shape[1]} columns")
    return Table({name: column_of(name, inputs[:, k]) for k, name in enumerate(names)}, len(inputs)), labels


def read_labelled(path: Path, label: str, categories: Iterable[str] = ()) -> tuple[Table, Column]:
    """(all columns, the labels) of a file that holds a table: text, Arrow, or an .npz whose inputs have columns."""
    if path.suffix.lower() != ".npz":
        table = read_table(path, {label, *categories})
        require(
            label in table.columns, "data", str(path), f"has no column {label}", f"it has: {', '.join([*table.columns][:10])}"
        )
        return table, table.columns[label]
    found = _arrays(path, label, None, None, Choose(), Spelling())
    if not isinstance(found.rows, Table):
        raise FedtierError("data", str(path), f"holds an array of shape {found.rows.shape}", "a table, as at the server")
    words = {name: as_words(found.rows.columns[name]) for name in categories if name in found.rows.columns}
    return found.rows._replace(columns=found.rows.columns | words), found.label


def read_table(
    source: object,
    texts: Iterable[str] = (),
    *,
    header: bool = True,
    decimal: str = "",
    empty: Mapping[str, Collection[str]] = MISSING_EVERYWHERE,
) -> Table:
    """A text file, a Parquet, Arrow or Feather file, or a frame; columns in `texts` as words; `decimal` and `empty` as in
    `read_delimited`."""
    if is_frame(source):
        return read_frame(source, texts, (), decimal, empty)
    if not isinstance(source, Path):
        raise FedtierError("data", type(source).__name__, "is no table", "a path, a DataFrame, a dict of arrays")
    if source.suffix.lower() in ARROW:
        return read_arrow(source, texts, decimal, empty)
    if is_delimited(source):
        return read_delimited(source, header=header, texts=texts, decimal=decimal, empty=empty)
    endings = f"{', '.join(ENDINGS)} (also with .gz, .xz, .bz2 or .zip), {', '.join(ARROW)} or .npz"
    raise FedtierError("file", str(source), f"must end in {endings}, or be a folder of images", "save it as CSV; " + SAVEZ)


def _features(table: Table, special: set[str], choose: Choose) -> Table:
    for key, names in choose._asdict().items():
        for name in names:
            known = name in table.columns
            require(known, key, name, "is not a column of the table", nearest(name, table.columns))
            require(name not in special, key, name, "is the label, the owner or the weight, and no feature")
    chosen = [name for name in (choose.keep or table.columns) if name not in special and name not in choose.drop]
    rule = "has no column besides label, owner and weight"
    require(bool(chosen), "file", "the table", rule, "a row needs at least one feature")
    return table.only(chosen)


def _images(folder: Path, size: int | None, owner: str | None) -> Content:
    """Owners are the outer folders of FOLDER/OWNER/CLASS/IMAGE.png; owner is then "folder"."""
    found = image_folder.read_images(folder, size)
    if owner is not None:
        require(owner == "folder", "owner", owner, "must be 'folder': images belong to the outer folder they lie in")
        flat = "has no owners: its folders are FOLDER/CLASS/IMAGE.png"
        require(found.owners is not None, "owner", owner, flat, "FOLDER/OWNER/CLASS/IMAGE.png has")
    return Content(found.inputs, found.labels, found.owners, None)


def _arrays(path: Path, label: str, owner: str | None, weight: str | None, choose: Choose, spelling: Spelling) -> Content:
    """Arrays `inputs` (or x), `labels` (or y, or the name in label), `owner` (or the name in owner) of an .npz."""
    with _npz(path) as file:
        inputs = _array(file, path, INPUTS, "inputs")
        labels = _array(file, path, _label_names(label), "label")
        owners = _array(file, path, (owner,), "owner") if owner else file["owner"] if "owner" in file.files else None
        weights = _array(file, path, (weight,), "weight") if weight else None
        names = file["columns"].astype(str).tolist() if "columns" in file.files else None
    here = f"{path.name}: inputs"
    require(inputs.ndim >= 1 and len(inputs) > 0, here, inputs.shape, "holds no rows")
    found, words = {"labels": labels, "owner": owners, "weight": weights}, spelling.empty(("labels", "owner"))
    columns = [
        None if values is None else _one_each(path, what, values, len(inputs), words.get(what, MISSING))
        for what, values in found.items()
    ]
    if isinstance(columns[2], Words):
        columns[2] = settled(columns[2], spelling.decimal)[0]
    told = {label: "labels", owner or "owner": "owner"}
    taken = {name: found[what] for name, what in told.items() if found[what] is not None and found[what].dtype.kind in "OSU"}
    gone = {name: taken_for_missing(Counter(texts_of(v)), words.get(told[name], MISSING)) for name, v in taken.items()}
    if inputs.ndim != 2:
        hint = f"{path.name} holds an array of shape {inputs.shape}"
        require(
            not any((choose.drop, choose.keep, choose.categories)),
            "drop",
            hint,
            "drop, keep and categories are for tables",
        )
        values = as_inputs(here, inputs.astype(np.float32) if inputs.dtype == bool else inputs)
        return Content(values[:, None] if values.ndim == 3 else values, *columns, decimal=spelling.decimal, gone=gone)  # pyright: ignore[reportArgumentType]
    names = names or [str(k) for k in range(inputs.shape[1])]
    require(len(names) == inputs.shape[1], f"{path.name}: columns", len(names), f"must name the {inputs.shape[1]} columns")
    require(inputs.dtype.kind in "buif", here, f"dtype {inputs.dtype}", "must hold numbers", "a CSV may hold words")
    table = {name: column_of(name, inputs[:, k]) for k, name in enumerate(names)}
    table |= {name: as_words(table[name]) for name in choose.categories if name in table}
    features = checked(_features(Table(table, len(inputs)), set(), choose), choose.categories)
    return Content(features, *columns, decimal=spelling.decimal, gone=gone)  # pyright: ignore[reportArgumentType]


@contextmanager
def _npz(path: Path) -> Iterator[NpzFile]:
    """The arrays of an .npz."""
    with _intact(path), path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        if not isinstance(file, NpzFile):
            raise FedtierError("file", str(path), "is a single array, not a .npz", SAVEZ)
        yield file


@contextmanager
def _intact(path: Path) -> Iterator[None]:
    """Inside, an .npz or an .npy is read: what is wrong with the file is told by its name."""
    try:
        yield
    except FedtierError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        pickled = "allow_pickle" in str(error)
        rule = "holds Python objects, which are never unpickled" if pickled else f"is not an intact .npz file ({error})"
        hint = "save plain arrays of numbers or strings" if pickled else "save or copy it again"
        raise FedtierError("file", str(path), rule, hint) from error


def _one_each(path: Path, what: str, values: np.ndarray, rows: int, missing_words: Collection[str] = MISSING) -> Column:
    name = f"{path.name}: {what}"
    require(values.ndim == 1, name, values.shape, "must be one value per row: a vector")
    require(len(values) == rows, name, f"{len(values)} values", f"must have one value per row, but there are {rows} rows")
    return unsettled(what, values, missing_words)


def _array(file: NpzFile, path: Path, names: tuple[str, ...], what: str) -> np.ndarray:
    for name in names:
        if name in file.files:
            return file[name]
    wanted, close = " or ".join(repr(name) for name in dict.fromkeys(names)), nearest(names[0], file.files)
    hint = close if close.startswith("did") else f"it has: {', '.join(file.files) or 'no arrays'}"
    raise FedtierError(what, str(path), f"has no array {wanted}", hint)


def _label_names(label: str) -> tuple[str, ...]:
    """The array that holds the labels: the one that is named; without a name any of the usual ones."""
    return (label, *LABELS) if label == UNNAMED else (label,)
