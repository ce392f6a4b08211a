"""Labels and owners of any kind become 0 .. K - 1, and the names are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FedtierError, require


def encode(name: str, values: Any, rows: int, least: int = 1) -> tuple[np.ndarray, tuple[str, ...]]:
    """(codes [N] int32, names [K]): names[codes[i]] is what row i said.

    Whole numbers are ordered as numbers (also when they are written as text or as 3.0), anything else, codes such as 007
    included, as text. A value that no row has gets no code: labels {0, 2} become {0, 1} with names ("0", "2").
    """
    values = np.asarray(values)
    require(values.ndim == 1, name, values.shape, "must be one value per row: a vector")
    require(len(values) == rows, name, f"{len(values)} values", f"must have one value per row, but there are {rows} rows")
    distinct, codes = np.unique(_ordered(name, values), return_inverse=True)
    rule = f"must have at least {least} different values, all rows have the same one"
    require(len(distinct) >= least, name, str(distinct[0]), rule)
    return codes.reshape(-1).astype(np.int32), tuple(str(value) for value in distinct.tolist())


def known(name: str, values: Any, rows: int, names: Sequence[str]) -> np.ndarray:
    """codes [N] int32 by names that are given: those of a server, to which a site's labels must belong."""
    distinct, codes = np.unique(_ordered(name, np.asarray(values)), return_inverse=True)
    require(len(codes.reshape(-1)) == rows, name, f"{codes.size} values", f"must have one value per row, not {rows} rows")
    place = {text: code for code, text in enumerate(names)}
    for value in distinct.tolist():
        require(str(value) in place, name, str(value), "is no label of this federation", f"known: {', '.join(names)}")
    return np.asarray([place[str(value)] for value in distinct.tolist()], np.int32)[codes.reshape(-1)]


def _ordered(name: str, values: np.ndarray) -> np.ndarray:
    kind = values.dtype.kind
    if kind == "b":
        return values.astype(np.int64)
    if kind in "iu":
        return values
    if kind == "f":
        return _whole_numbers(name, values)
    if kind == "S":
        values = np.char.decode(values, "utf-8")
    texts = np.asarray(["" if value is None else str(value).strip() for value in values.tolist()])
    _refuse_first(name, (texts == "") | (np.char.lower(texts) == "nan"), "is missing", "drop the rows without one")
    if any(re.match(r"[+-]?0\d", text) for text in texts.tolist()):
        return texts  # codes such as 007: not the same as 7
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        return texts
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
    return numbers.astype(np.int64) if whole.all() else texts


def _whole_numbers(name: str, values: np.ndarray) -> np.ndarray:
    _refuse_first(name, ~np.isfinite(values), "is missing (not a finite number)", "drop the rows without one")
    fraction = values != np.floor(values)
    _refuse_first(name, fraction, "is not a whole number", "classes are whole numbers or words, not targets to regress on")
    return values.astype(np.int64)


def _refuse_first(name: str, bad: np.ndarray, rule: str, hint: str) -> None:
    if bad.any():
        raise FedtierError(name, f"row {int(np.argmax(bad))}", f"{rule} (rows count from 0)", hint)
