"""A table as it comes: named columns of numbers or of words, before anything is fitted to them.

Which kind a column is, what counts as missing and what as a date is decided here, once for every source: text files,
Parquet, frames.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..errors import FedtierError

MISSING = frozenset(
    ("", "?", ".", "-", "na", "n/a", "n.a.", "#n/a", "#na", "nan", "-nan", "null", "none", "<na>", "nil", "#value!", "#div/0!")
)  # in any case, as the text of a whole cell
ODD_SHARE, ODD_LEVELS = 0.1, 20  # so few cells that are no numbers, beside so many different numbers, are slips of the pen
EXACT = 2**53  # up to here a float64 tells whole numbers apart
SAY_DECIMAL = 'decimal = "," where they stand before decimals, decimal = "." where they stand between thousands'
EITHER = "?"  # 1,234 is 1234 or 1.234
_CODE = re.compile(r"0\d+")  # 02134: a postcode or the like, whose zero says something
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)(\.0*)?")
_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?")
_UNITS = re.compile(r"([$€£¥]?)\s*([+-]?\d[\d.,]*|[+-]?[.,]\d+)\s*([%€$£¥]?)")  # $ 1,200.50 or 3.5 %
_THOUSANDS = re.compile(r"[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d*)?")
_POINTS = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d*)?")  # 1.234,50
_DAY = r"\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2})"
_NAMED_DAY = r"\d{1,2}[- ][A-Za-z]{3,9}[- ,]+\d{2,4}|[A-Za-z]{3,9} \d{1,2}, \d{4}"
_TIME = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
_DATE = re.compile(rf"({_DAY}|{_NAMED_DAY})([T ]+{_TIME}.*)?|{_TIME}")


class Words(NamedTuple):
    """A column of texts: levels[codes[i]] is what row i says."""

    codes: np.ndarray  # [N] int32; -1 = missing
    levels: tuple[str, ...]  # each once, none of them a word for missing


NOWHERE: Mapping[str, Mapping[str, int]] = MappingProxyType({})
Column = np.ndarray | Words  # numbers are float64 or float32, NaN = missing


class Table(NamedTuple):
    columns: dict[str, Column]  # by name, in the order of the source
    rows: int
    notes: tuple[str, ...] = ()  # what reading decided, in words
    twice: frozenset[str] = frozenset()  # names that several columns of the source have; all but the first got a number
    decimal: str = ""  # what stands before decimals in numbers with commas, "," or "."; "": there are none, or it is not known
    gone: Mapping[str, Mapping[str, int]] = NOWHERE  # by column of words: texts that count as missing, in how many rows

    def take(self, rows: np.ndarray) -> Table:
        """These rows, in this order."""
        taken = {name: take(column, rows) for name, column in self.columns.items()}
        return self._replace(columns=taken, rows=len(np.arange(self.rows)[rows]))

    def only(self, names: Iterable[str]) -> Table:
        return self._replace(columns={name: self.columns[name] for name in names})


def take(column: Column, rows: np.ndarray | slice) -> Column:
    return Words(column.codes[rows], column.levels) if isinstance(column, Words) else column[rows]


def missing(column: Column) -> np.ndarray:
    """[N] which rows have no value."""
    return column.codes < 0 if isinstance(column, Words) else np.isnan(column)


def as_words(column: Column) -> Words:
    """A column of numbers as texts, whole ones without a point: 3.0 is "3"."""
    if isinstance(column, Words):
        return column
    known = ~np.isnan(column)
    values, inverse = np.unique(column[known], return_inverse=True)
    codes = np.full(len(column), -1, np.int32)
    codes[known] = inverse
    return _numbered([spelled(repr(float(value))) for value in values], codes)


def spelled(text: str) -> str:
    """One spelling of a whole number: "3", "3." and "3.0" are "3", but "007" stays."""
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def words(cells: Iterable[str], missing_words: Collection[str] = MISSING) -> Words:
    """Texts as levels and codes, in the order of their first row; what stands for missing is -1."""
    index: dict[str, int] = {}
    codes = np.fromiter((index.setdefault(cell, len(index)) for cell in cells), np.int32)
    return _numbered([text.strip() for text in index], codes, missing_words)


def taken_for_missing(counts: Mapping[str, int], missing_words: Collection[str] = MISSING) -> dict[str, int]:
    """Of texts and how many cells have each: those that count as missing, though the cell is not empty."""
    return {text: n for text, n in counts.items() if text.strip() and text.strip().lower() in missing_words}


def _numbered(levels: Sequence[str], codes: np.ndarray, missing_words: Collection[str] = MISSING) -> Words:
    """`codes` into `levels`, of which some may be equal or missing, as Words."""
    places: dict[str, int] = {}
    new = [-1 if text.lower() in missing_words else places.setdefault(spelled(text), len(places)) for text in levels]
    return Words(np.asarray([*new, -1], np.int32)[codes], tuple(places))


def settled(column: Words, decimal: str = "") -> tuple[Column, str]:
    """Words that are numbers after all, as numbers, and what was decided in words: true and false, decimal commas, commas
    between thousands, and columns of numbers with a few cells that are none. Where a comma may be either, `decimal` decides,
    "," or "."; without it they stay words, which `refuse_either` refuses."""
    levels, unit = column.levels, _unit(column.levels)
    if not levels:
        return np.full(len(column.codes), np.nan), ""
    if unit:
        plain = Words(column.codes, tuple(_UNITS.sub(r"\2", level) for level in levels))
        found, _ = settled(plain, decimal)
        if not isinstance(found, Words):
            return found, f"numbers, {unit} left out"
    if {level.lower() for level in levels} <= {"true", "false"}:
        return _valued(column, [float(level.lower() == "true") for level in levels]), ""
    point = decimal_of(levels)
    if point == EITHER and not decimal:
        return column, ""
    point = decimal if point == EITHER else point
    if point:
        return _valued(column, [float(_with_point(level, point)) for level in levels]), ""
    if any(_CODE.fullmatch(level) for level in levels):
        return column, ""
    values = np.asarray([number(level) for level in levels])
    odd = np.isnan(values)
    if not odd.any():
        return _valued(column, values), ""
    strange = np.isin(column.codes, np.flatnonzero(odd)).sum()
    if strange <= ODD_SHARE * (column.codes >= 0).sum() and (~odd).sum() > ODD_LEVELS:
        some = ", ".join(repr(level) for level in np.asarray(levels)[odd][:3].tolist())
        return _valued(column, values), f"{strange} cells that are no numbers ({some}) count as missing"
    return column, ""


def decimal_of(levels: Sequence[str]) -> str:
    """What stands before the decimals of numbers with commas: "," in 0,5 and 1.234,5; "." in 1,234,567 and 1,234.5, where
    commas are between thousands; EITHER where 1,234 is the only evidence; "" where no number has a comma, or some are no
    numbers."""
    if not any("," in level for level in levels):
        return ""
    levels = [_UNITS.sub(r"\2", level) for level in levels] if _unit(levels) else levels
    thousands, *decimals = (all(pattern.fullmatch(level) for level in levels) for pattern in (_THOUSANDS, _COMMA, _POINTS))
    return EITHER if thousands and any(decimals) else "." if thousands else "," if any(decimals) else ""


def decimal_of_all(columns: Iterable[Column], otherwise: str = "") -> str:
    """What stands before the decimals in a table: what its columns agree on; `otherwise` where none of them says."""
    found: set[str] = set()
    for column in columns:
        if isinstance(column, Words):
            found.add(decimal_of(column.levels))
        elif np.any(column[np.isfinite(column)] % 1):
            found.add(".")
    known = found - {"", EITHER}
    return known.pop() if len(known) == 1 else "" if known else otherwise


def refuse_either(name: str, column: Column, hint: str = SAY_DECIMAL) -> None:
    """Refuses words that are numbers if only somebody said what their commas are."""
    if not isinstance(column, Words) or decimal_of(column.levels) != EITHER:
        return
    example = next(level for level in column.levels if "," in level)
    rule = f"may be {_with_point(example, '.')} or {_with_point(example, ',')}: nothing in the table says what its commas are"
    raise FedtierError(f"column {name}", example, rule, hint)


def with_points(column: Words) -> Words:
    """Decimal commas as points, where every text is a number that may have one."""
    fits = all(_COMMA.fullmatch(level) for level in column.levels)
    return Words(column.codes, tuple(level.replace(",", ".") for level in column.levels)) if fits else column


def _with_point(text: str, point: str) -> str:
    """A number as Python writes it, of one whose decimals stand behind `point` and whose thousands are apart by the other."""
    other = "," if point == "." else "."
    return text.replace(other, "").replace(point, ".")


def _unit(levels: Sequence[str]) -> str:
    """The sign of a currency, or %, that stands at every number; "" where there is none or not one for all."""
    parts = [_UNITS.fullmatch(level) for level in levels]
    units = {part.group(1) + part.group(3) if part else "" for part in parts}
    return units.pop() if len(units) == 1 else ""


def number(text: str) -> float:
    """The number that `text` is, NaN if it is none; codes such as 007 and 1_000 are none."""
    try:
        return float(text) if "_" not in text and not re.match(r"[+-]?0\d", text) else np.nan
    except ValueError:
        return np.nan


def _valued(column: Words, values: object) -> np.ndarray:
    return np.append(np.asarray(values, np.float64), np.nan)[column.codes]


def are_dates(column: Column) -> bool:
    """Do most texts look like dates or times of day? A few others, "unknown" for example, stand for a missing one."""
    some = column.levels[:1000] if isinstance(column, Words) else ()
    return 2 * sum(bool(_DATE.fullmatch(level)) for level in some) > len(some)


def first_date(column: Column) -> str:
    """The first text of `are_dates` that looks like one."""
    return next(level for level in column.levels if _DATE.fullmatch(level)) if isinstance(column, Words) else ""


def column_of(name: str, values: object, decimal: str = "") -> Column:
    """An array or a list of any kind as a column: what is None, NaN, NaT or a word for it is missing. `decimal` as in
    `settled`."""
    found = unsettled(name, values)
    return settled(found, decimal)[0] if isinstance(found, Words) and not are_times(values) else found


def are_times(values: object) -> bool:
    """Is this an array of dates or spans of time, which are no numbers whatever their texts look like?"""
    return np.asarray(values).dtype.kind in "mM"


def unsettled(name: str, values: object, missing_words: Collection[str] = MISSING) -> Column:
    """`column_of` before texts become numbers. Whole numbers that a float64 cannot tell apart stay words."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise FedtierError(f"column {name}", values.shape, "must hold one value per row", "split it into columns first")
    kind = values.dtype.kind
    if kind in "iu" and len(values) and max(abs(int(values.max())), abs(int(values.min()))) > EXACT:
        return words(map(str, values.tolist()))
    if kind in "biu":
        return values.astype(np.float64)
    if kind == "f":
        return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    if kind in "mM":
        texts = np.datetime_as_string(values) if kind == "M" else values.astype(str)
        return words(["" if text == "NaT" else text.split(".")[0] for text in texts.tolist()])
    if kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    cells = values.tolist()
    if any(isinstance(cell, list | tuple | dict | set | np.ndarray) for cell in cells):
        raise FedtierError(f"column {name}", NOT_FLAT, "holds lists or records", "drop it, or spread it over columns first")
    known = [cell for cell in cells if not _is_nothing(cell)]
    large = any(isinstance(cell, numbers.Integral) and abs(int(cell)) > EXACT for cell in known)
    if known and not large and all(isinstance(cell, numbers.Number) and not isinstance(cell, complex) for cell in known):
        return np.asarray([np.nan if _is_nothing(cell) else float(cell) for cell in cells])  # pyright: ignore[reportArgumentType]
    return words(texts_of(values), missing_words)


def texts_of(values: object) -> list[str]:
    """The cells of an array or a list of any kind as texts; "" where there is nothing."""
    return ["" if _is_nothing(cell) else _text(cell) for cell in np.asarray(values).tolist()]


NOT_FLAT = "not one value per cell"


def _is_nothing(cell: object) -> bool:
    """None, NaN, and what pandas and polars have in their place."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and math.isnan(cell)


def _text(cell: object) -> str:
    if isinstance(cell, datetime.datetime | datetime.date):
        return cell.isoformat().split(".")[0]
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
