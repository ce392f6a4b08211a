"""Tables: CSV with the standard library, Parquet with the extra `fedtier[parquet]`.

Every column but the label and the owner is a feature and must be numeric.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FedtierError, nearest, require

BLOCK = 4096  # lines turned into numbers in one go
Table = tuple[np.ndarray, np.ndarray, "np.ndarray | None", tuple[str, ...]]  # inputs, labels, owners, names of the features


def read_csv(path: Path, label: str, owner: str | None) -> Table:
    """A comma-separated file with a header line, UTF-8. About half a million cells a second: Parquet or .npz for more."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _rows(path, csv.reader(file), label, owner)
    except UnicodeDecodeError as error:
        raise FedtierError("data.file", str(path), f"is not UTF-8 text ({error})", "save it as UTF-8 CSV") from error
    except csv.Error as error:
        raise FedtierError("data.file", str(path), f"is not CSV ({error})", "save it as comma-separated text") from error


def _rows(path: Path, lines: Iterator[list[str]], label: str, owner: str | None) -> Table:
    header = [name.strip() for name in next(lines, [])]
    require(bool(header), "data.file", str(path), "is empty", "the first line names the columns")
    separator = next((mark for mark in ";\t|" if mark in header[0]), None) if len(header) == 1 else None
    require(separator is None, "data.file", str(path), f"must be separated by commas, but looks separated by {separator!r}")
    features, at_label, at_owner = choose(path, header, label, owner)
    blocks, labels, owners = [], [], []
    start = 2  # the line numbers an editor shows, as long as no cell holds a line break
    while block := list(islice(lines, BLOCK)):
        numbered = [(start + k, line) for k, line in enumerate(block) if line]
        start += len(block)
        for number, line in numbered:
            if len(line) != len(header):
                rule = f"line {number} must have {len(header)} cells like the header"
                raise FedtierError("data.file", str(path), rule + f", not {len(line)}", "is the file cut short?")
        labels += [line[at_label] for _, line in numbered]
        owners += [line[at_owner] for _, line in numbered] if at_owner is not None else []
        cells = [[line[k] for k in features] for _, line in numbered]
        blocks.append(_numbers(path, cells, [number for number, _ in numbered], [header[k] for k in features]))
    require(bool(labels), "data.file", str(path), "holds no rows, only a header")
    names = tuple(header[k] for k in features)
    return np.concatenate(blocks), np.array(labels), np.array(owners) if at_owner is not None else None, names


def _numbers(path: Path, cells: list[list[str]], lines: list[int], names: list[str]) -> np.ndarray:
    if not cells:
        return np.empty((0, len(names)), np.float32)
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        values = None
    if values is not None and np.isfinite(values).all():
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    for number, row in zip(lines, cells, strict=True):
        for name, cell in zip(names, row, strict=True):
            if not _is_finite(cell):
                what = "is missing" if not cell.strip() else "must be a finite number"
                raise FedtierError(
                    f"{path.name}: column {name}",
                    cell,
                    f"{what} in line {number}",
                    "fill in or drop missing values, encode text as numbers, or remove the column",
                )
    raise FedtierError("data.file", str(path), f"cannot be read as numbers between lines {lines[0]} and {lines[-1]}")


def _is_finite(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def read_parquet(path: Path, label: str, owner: str | None) -> Table:
    """A Parquet file; null counts as a missing value and is refused."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        hint = "pip install 'fedtier[parquet]', or save the table as .csv or .npz"
        raise FedtierError("data.file", str(path), "needs the package pyarrow to read Parquet", hint) from error
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError) as error:
        rule = f"is not an intact Parquet file ({error})"
        raise FedtierError("data.file", str(path), rule, "save or copy it again") from error
    features, at_label, at_owner = choose(path, table.column_names, label, owner)
    require(table.num_rows > 0, "data.file", str(path), "holds no rows")
    inputs = np.empty((table.num_rows, len(features)), np.float32)
    for k, column in enumerate(features):
        inputs[:, k] = _column(path, table, column, pyarrow)
    labels = _values(table, at_label)
    owners = None if at_owner is None else _values(table, at_owner)
    return inputs, labels, owners, tuple(table.column_names[k] for k in features)


def _column(path: Path, table: Any, column: int, pyarrow: Any) -> np.ndarray:
    kind = table.schema.field(column).type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    if not is_number:
        name = f"{path.name}: column {table.column_names[column]}"
        raise FedtierError(name, str(kind), "must be numeric", "encode it as numbers, or remove the column")
    with np.errstate(over="ignore"):
        return table.column(column).cast(pyarrow.float64()).to_numpy().astype(np.float32)


def _values(table: Any, column: int) -> np.ndarray:
    return np.asarray(table.column(column).to_numpy())


def choose(path: Path, header: list[str], label: str, owner: str | None) -> tuple[list[int], int, int | None]:
    """(the features' positions, the label's, the owner's or None)."""
    twice = sorted({name for name in header if header.count(name) > 1})
    require(not twice, "data.file", str(path), f"names the column {twice[0] if twice else ''!r} twice", "rename one")
    require(label in header, "data.label", label, f"is not a column of {path.name}", nearest(label, header))
    if owner is not None:
        require(owner in header, "data.owner", owner, f"is not a column of {path.name}", nearest(owner, header))
        require(owner != label, "data.owner", owner, "must not be the label's column")
    features = [k for k, name in enumerate(header) if name not in (label, owner)]
    require(bool(features), "data.file", str(path), "has no column besides label and owner", "a row needs at least one feature")
    return features, header.index(label), None if owner is None else header.index(owner)
