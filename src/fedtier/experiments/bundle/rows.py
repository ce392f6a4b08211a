"""Rows of any source as a model's inputs: a path, a DataFrame, a dict of arrays, an array. They may hold the label too."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...datasets import Preparation
from ...datasets.content import read_table, read_unlabelled
from ...datasets.frames import is_frame
from ...datasets.labels import known
from ...datasets.preparation import PLAIN, Label
from ...datasets.table import MISSING, Column, Table, Words, as_words, missing, refuse_either, settled
from ...errors import FedtierError, nearest, require


class Reading(NamedTuple):
    """How the training rows were read, as far as new ones must be read alike."""

    columns: tuple[str, ...] = ()  # names of the numbers of a row, where rows were arrays with names
    header: bool = True
    image_size: int | None = None
    decimal: str = ""  # what stands before decimals, "," or ".", where a column of new rows does not say


class Given(NamedTuple):
    """Rows as they were given, prepared."""

    inputs: np.ndarray  # [N, ...] float32, as the preparation gives them
    truth: np.ndarray | None  # [N] names of classes or numbers, None where the rows do not say for all
    unused: tuple[str, ...] = ()


def read_rows(rows: object, preparation: Preparation, reading: Reading) -> Given:
    """`rows` prepared as the training rows were. Columns may come in any order; what is not known of a category or missing
    is treated as the preparation says. Refuses rows that lack a column, by its name."""
    source = Path(rows).expanduser() if isinstance(rows, str | Path) else rows
    if isinstance(source, Path):
        require(source.exists(), "rows", str(source), "is not there", "give the path of a table, an .npz or a folder of images")
    label, categories = preparation.label, [column.name for column in preparation.categories]
    if isinstance(source, Path) and (source.is_dir() or source.suffix.lower() in (".npz", ".npy")):
        found, said = read_unlabelled(source, label.name, preparation.shape, reading.image_size)
    elif isinstance(source, Path) or is_frame(source):
        empty = {label.name: MISSING - {name.lower() for name in label.classes}}  # a class may be called none
        texts = {label.name, *categories}
        found = read_table(source, texts, header=reading.header, decimal=reading.decimal, empty=empty)
        said = found.columns.get(label.name)
    else:
        rule = "must be one array: a pair of inputs and labels has no names"
        hint = "a DataFrame or a dict with the label's column; images: numpy.savez(file, inputs=..., labels=...)"
        require(not isinstance(source, tuple), "rows", f"{type(source).__name__}", rule, hint)
        found, said = np.asarray(source), None
    if isinstance(found, Table):
        return _of_table(found, said, preparation, reading)
    return Given(preparation.apply(_shaped(found, preparation)), _truth(said, label, reading.decimal))


def _of_table(table: Table, said: Column | None, preparation: Preparation, reading: Reading) -> Given:
    wanted = preparation.needs if preparation.scaling is None else _names(table, preparation, reading)
    for name in wanted:
        if name not in table.columns:
            spare = [other for other in table.columns if other not in (*wanted, preparation.label.name)]
            hint = nearest(name, spare) if spare else ""
            raise FedtierError("rows", name, "is a column that the model needs, and the rows do not have it", hint)
    unused = tuple(name for name in table.columns if name not in (*wanted, preparation.label.name))
    table, truth = table.only(wanted), _truth(said, preparation.label, table.decimal or reading.decimal)
    if preparation.scaling is None:
        return Given(preparation.apply(table), truth, unused)
    for name, column in table.columns.items():
        bad = np.ones(1, bool) if isinstance(column, Words) else ~np.isfinite(column)
        require(
            not bad.any(), f"column {name}", f"row {int(np.argmax(bad))}", "must be a number: rows of this model have no words"
        )
    numbers = np.column_stack([np.asarray(column) for column in table.columns.values()])
    return Given(preparation.apply(_shaped(numbers, preparation)), truth, unused)


def _names(table: Table, preparation: Preparation, reading: Reading) -> tuple[str, ...]:
    """The columns that make up one row of numbers: those of the training rows by name, else all but the label, in order."""
    if reading.columns:
        return reading.columns
    found = tuple(name for name in table.columns if name != preparation.label.name)
    count = int(np.prod(preparation.shape))
    hint = f"the label {preparation.label.name} not counted; without a header? save them as .npz"
    require(len(found) == count, "rows", f"{len(found)} columns", f"must have {count} columns of numbers", hint)
    return found


def _shaped(values: np.ndarray, preparation: Preparation) -> np.ndarray:
    """Rows of arrays in the shape that the model has: flat rows of numbers, and images without their one channel, are fine."""
    if preparation.scaling is None:
        return values
    shape = preparation.shape
    whole = values.ndim >= 2 and int(np.prod(values.shape[1:])) == int(np.prod(shape))
    rule = f"must be rows of shape {shape}, or flat ones of {int(np.prod(shape))} numbers"
    require(whole, "rows", values.shape, rule)
    require(values.dtype.kind in "buif", "rows", f"dtype {values.dtype}", "must hold numbers")
    alike = values.shape[1:] == shape or values.ndim == 2 or (len(shape) == 3 and values.shape[1:] == shape[1:])
    require(alike, "rows", values.shape, rule, "channels come first")
    rows = values.reshape(len(values), *shape)
    bad = ~np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))
    require(not bad.any(), "rows", f"row {int(np.argmax(bad))}", "holds what is no finite number", "leave such rows out")
    return rows


def _truth(said: Column | None, label: Label, decimal: str) -> np.ndarray | None:
    """What the rows say themselves; None where they do not for all of them. A class that the model does not know is refused."""
    if said is None or missing(said).any():
        return None
    if label.classes:
        return np.asarray(label.classes, dtype=np.str_)[known(f"label {label.name}", as_words(said), label.classes)]
    numbers = settled(said, decimal)[0] if isinstance(said, Words) else said
    refuse_either(label.name, numbers, PLAIN)
    require(not isinstance(numbers, Words), f"label {label.name}", "words", "must be numbers, as in the training rows")
    return np.asarray(numbers, np.float64)
