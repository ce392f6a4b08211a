"""Tables that are in memory already, or in Arrow's formats: DataFrames of pandas and polars, Arrow tables, dicts of arrays.

Told apart by what they can do: neither pandas nor polars is ever imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import FedtierError, require
from .delimited import MISSING_EVERYWHERE
from .table import (
    MISSING,
    Column,
    Table,
    Words,
    are_times,
    as_words,
    decimal_of,
    decimal_of_all,
    settled,
    taken_for_missing,
    texts_of,
    unsettled,
)

ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def is_frame(source: object) -> bool:
    return (
        isinstance(source, dict) or hasattr(source, "column_names") or (hasattr(source, "columns") and hasattr(source, "shape"))
    )


def read_frame(
    frame: Any,
    texts: Iterable[str] = (),
    skip: Iterable[str] = (),
    decimal: str = "",
    empty: Mapping[str, Collection[str]] = MISSING_EVERYWHERE,
) -> Table:
    """A DataFrame, an Arrow table or a dict of arrays as a Table. Columns in `texts` become words, those in `skip` are left.
    `decimal` and `empty` as in `delimited.read_delimited`, for cells that are texts."""
    names = _names(frame)
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, "data", twice[:1], "two columns of the frame have this name", "rename one")
    columns: dict[str, Column] = {}
    times: set[str] = set()
    gone: dict[str, dict[str, int]] = {}
    for name in names:
        if name not in skip:
            values, missing_words = _values(frame, name), empty.get(name, MISSING)
            columns[name] = unsettled(name, values, missing_words)
            times |= {name} if are_times(values) else set()
            if name in texts:
                columns[name] = as_words(columns[name])
                gone[name] = taken_for_missing(Counter(texts_of(values)), missing_words)
    spelled = [column for name, column in columns.items() if isinstance(column, Words) and name not in times]
    point = decimal or decimal_of_all(spelled)
    for name, column in columns.items():
        if isinstance(column, Words) and name not in texts and name not in times:
            columns[name] = settled(column, point)[0]
    lengths = {len(_values(frame, name)) for name in names[:1]}
    rows = lengths.pop() if lengths else 0
    require(rows > 0, "data", f"{len(names)} columns", "the frame holds no rows")
    for name, column in columns.items():
        length = len(column.codes if isinstance(column, tuple) else column)
        require(length == rows, f"column {name}", length, f"must have {rows} values like the first column")
    return Table(columns, rows, decimal=point if any(decimal_of(column.levels) for column in spelled) else "", gone=gone)


def _names(frame: Any) -> list[str]:
    found = frame.keys() if isinstance(frame, dict) else getattr(frame, "column_names", None) or frame.columns
    return [str(name) for name in found]


def _values(frame: Any, name: str) -> np.ndarray:
    if isinstance(frame, dict):
        return np.asarray(frame[name])
    if hasattr(frame, "column_names"):
        return _arrow_values(frame.column(name))
    place = [str(column) for column in frame.columns].index(name)
    column = frame.iloc[:, place] if hasattr(frame, "iloc") else frame.to_series(place)
    return column.to_numpy()


def _arrow_values(column: Any) -> np.ndarray:
    """An Arrow column as NumPy has it; what has no such form, a decimal for example, cell by cell."""
    if str(column.type).startswith("dictionary"):  # NumPy would lose its nulls
        column = column.cast(column.type.value_type)
    if str(column.type).startswith(("int", "uint")) and column.null_count:  # floats would merge large whole numbers
        return np.asarray(column.to_pylist(), dtype=object)
    try:
        return column.to_numpy()
    except (NotImplementedError, ValueError, TypeError):
        return np.asarray(column.to_pylist(), dtype=object)


def read_arrow(
    path: Path,
    texts: Iterable[str] = (),
    decimal: str = "",
    empty: Mapping[str, Collection[str]] = MISSING_EVERYWHERE,
) -> Table:
    """A Parquet, Arrow or Feather file; options as in `read_frame`."""
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError as error:
        hint = "pip install 'fedtier[parquet]', or save the table as .csv or .npz"
        raise FedtierError("file", str(path), "needs the package pyarrow to be read", hint) from error
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pyarrow.parquet.ParquetFile(path).read()
        elif path.suffix.lower() == ".feather":
            frame = pyarrow.feather.read_table(path)
        else:
            frame = _ipc(pyarrow, path)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        rule = f"is not an intact {path.suffix} file ({error})"
        raise FedtierError("file", str(path), rule, "save or copy it again") from error
    return read_frame(frame, texts, (), decimal, empty)


def _ipc(pyarrow: ModuleType, path: Path) -> Any:
    """Arrow's two forms of a file: with a footer, or as a stream."""
    with pyarrow.memory_map(str(path)) as source:
        try:
            return pyarrow.ipc.open_file(source).read_all()
        except pyarrow.ArrowInvalid:
            source.seek(0)
            return pyarrow.ipc.open_stream(source).read_all()
