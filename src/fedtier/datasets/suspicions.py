"""Columns that are probably not what somebody meant to learn from: dates, ids, indices, numbers out of all measure."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection

import numpy as np

from ..errors import FedtierError, FedtierWarning, require
from .table import Table, Words, are_dates, first_date, refuse_either

IDS = 20  # rows from which a column of different values is taken for an index or an id
ID_WORDS = frozenset(("id", "index", "uuid", "rownames", "number", "no"))


def checked(table: Table, categories: Collection[str] = ()) -> Table:
    """Refuses dates, numbers beyond float32, and numbers that may be read two ways unless they are `categories`; warns of
    columns that tell rows apart; infinite numbers become missing."""
    columns = dict(table.columns)
    for name, column in table.columns.items():
        if are_dates(column):
            hint = f'drop = ["{name}"], or turn it into numbers first, days since some day for example'
            raise FedtierError(f"column {name}", first_date(column), "holds dates or times, which are no numbers", hint)
        if isinstance(column, Words):
            if name not in categories:
                refuse_either(name, column)
            if table.rows >= IDS and len(column.levels) > table.rows / 2:
                _warn(
                    f"column {name} holds {len(column.levels)} different texts in {table.rows} rows: "
                    "it looks like an id or free text and is left out"
                )
                del columns[name]
            continue
        huge = np.isfinite(column) & (np.abs(column) > np.finfo(np.float32).max)
        if huge.any():
            row = int(np.argmax(huge))
            rule = f"is too large in row {row} (rows count from 0)"
            raise FedtierError(
                f"column {name}", float(column[row]), rule, "a slip of the pen? Mend it, or leave the column out: drop"
            )
        infinite = np.isinf(column)
        if infinite.any():
            _warn(f"column {name}: {infinite.sum()} infinite numbers count as missing")
            columns[name] = np.where(infinite, np.nan, column)
        if table.rows >= IDS and _is_index(name, column):
            _warn(
                f"column {name} counts the rows: it looks like an index or an id, and is learned from like any other number; "
                f'drop = ["{name}"] leaves it out'
            )
    require(bool(columns), "file", "the table", "has no feature left", "every column looks like an id")
    return table._replace(columns=columns)


def _is_index(name: str, column: np.ndarray) -> bool:
    """Whole numbers, each once: one after the other, or under a name that says id."""
    if np.isnan(column).any() or np.any(column != np.floor(column)) or len(np.unique(column)) < len(column):
        return False
    steps = np.diff(np.sort(column))
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name).lower().split()  # patientID, patient_id, patient-id
    return bool(np.all(steps == 1)) or bool(ID_WORDS & set(words))


def _warn(words: str) -> None:
    warnings.warn(words, FedtierWarning, stacklevel=2)
