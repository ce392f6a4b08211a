"""Text files of cells: CSV with any separator, quoted or not, plain or packed, with the standard library alone.

Columns are typed while they are read, a block of lines at a time: as numbers as long as every cell is one, else as words.
About four million cells a second on one core.
"""

from __future__ import annotations

import csv
import lzma
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..errors import FedtierError, require
from .table import (
    EITHER,
    MISSING,
    Column,
    Table,
    Words,
    decimal_of,
    decimal_of_all,
    settled,
    taken_for_missing,
    with_points,
    words,
)
from .text_form import CellReader, Form, Header, encodings, find_form, find_header, opened

BLOCK = 20_000  # lines in one go
MISSING_EVERYWHERE: Mapping[str, Collection[str]] = MappingProxyType({})
_LEADING_ZERO = re.compile(r"\n0\d")
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def read_delimited(
    path: Path,
    *,
    header: bool = True,
    texts: Iterable[str] = (),
    skip: Iterable[str] = (),
    decimal: str = "",
    empty: Mapping[str, Collection[str]] = MISSING_EVERYWHERE,
) -> Table:
    """The table in a text file. Columns in `texts` stay words as they are written; those in `skip` are not read at all.

    `decimal`, "," or ".", says what stands before decimals where a column of numbers such as 1,234 may be read both ways;
    without it the other columns decide, then a semicolon between cells, else it stays words. `empty` has the words that
    stand for missing in some columns, MISSING in the others.
    """
    wanted = Wanted(frozenset(texts), frozenset(skip), decimal, empty)
    try:
        for encoding in encodings(path):
            try:
                form = find_form(path, encoding)
                return _read(path, form, find_header(path, form, header), wanted)
            except UnicodeError:
                continue
    except csv.Error as error:
        hint = "is a quote left open somewhere, or is it no text file at all?"
        raise FedtierError("file", str(path), f"cannot be split into cells ({error})", hint) from error
    except DAMAGED as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        rule = f"is cut short or damaged ({error})"
        raise FedtierError("file", str(path), rule, "copy or download the file again") from error
    raise FedtierError("file", str(path), "is no text in UTF-8, UTF-16 or Windows-1252", "save it as UTF-8")


class Wanted(NamedTuple):
    """What is to be read of a file, and how: see `read_delimited`."""

    texts: frozenset[str]
    skip: frozenset[str]
    decimal: str
    empty: Mapping[str, Collection[str]]


def _read(path: Path, form: Form, header: Header, asked: Wanted) -> Table:
    names, texts = header.names, asked.texts
    wanted = [k for k, name in enumerate(names) if name not in asked.skip]
    as_text = {k for k in wanted if names[k] in texts}
    try:
        columns, rows = _columns(path, form._replace(strict=True), header, wanted, as_text)
    except csv.Error as error:
        if "end of data" in str(error):
            raise
        columns, rows = _columns(path, form, header, wanted, as_text)  # quotes inside cells: taken as they are
    require(rows > 0, "file", str(path), "holds no rows, only a header")
    empty = {names[k]: asked.empty.get(names[k], MISSING) for k in columns}
    found = {names[k]: column.read(empty[names[k]]) for k, column in columns.items()}
    gone = {names[k]: columns[k].taken_for_missing(empty[names[k]]) for k in as_text}
    point = asked.decimal or decimal_of_all(found.values(), "," if form.separator == ";" else "")
    done, notes = _settled(found, texts, point)
    notes = [*header.notes, *notes]
    if header.nameless and names[0] in done and _counts_or_names(done[names[0]]) and names[0] not in texts:
        del done[names[0]]
        notes.append("the first column has no name and tells the rows apart: it is left out")
    has_commas = any(isinstance(column, Words) and decimal_of(column.levels) for column in found.values())
    return Table(done, rows, (_told(form), *notes), header.twice, point if has_commas else "", gone)


def _settled(found: dict[str, Column], texts: Collection[str], point: str) -> tuple[dict[str, Column], list[str]]:
    """The columns, those of numbers as numbers, and what was decided; `point` stands before decimals where a column does not
    say. Those in `texts` stay words, decimal commas in them become points."""
    done, notes = dict(found), []
    for name, column in found.items():
        if not isinstance(column, Words):
            continue
        own = decimal_of(column.levels)
        if name in texts:
            done[name], note = with_points(column) if (point if own == EITHER else own) == "," else column, ""
        else:
            done[name], note = settled(column, point)
        commas = f"commas are taken to stand {'before decimals' if point == ',' else 'between thousands'}" * bool(
            own == EITHER and point
        )
        notes += [f"column {name}: {words}" for words in (note, commas) if words]
    return done, notes


def _counts_or_names(column: Column) -> bool:
    """Is this one row after the other counted, or each with a name of its own?"""
    if isinstance(column, Words):
        return len(column.levels) == len(column.codes)
    return bool(np.all(np.diff(column) == 1)) and column[0] in (0, 1)


def _columns(path: Path, form: Form, header: Header, wanted: list[int], as_text: set[int]) -> tuple[dict[int, _Column], int]:
    """(the columns, the number of rows). One pass, and a second for columns that turn out to be words only after a block
    of numbers."""
    while True:
        columns, rows = {k: _Column(k in as_text) for k in wanted}, 0
        for block in _blocks(path, form, header):
            rows += len(block)
            cells = list(zip(*block, strict=True))
            for k, column in columns.items():
                column.add(cells[k])
        late = {k for k, column in columns.items() if column.late}
        if not late:
            return columns, rows
        as_text = as_text | late


def _told(form: Form) -> str:
    separator = {"\t": "tabs", " ": "spaces"}.get(form.separator, repr(form.separator))
    encoding = "" if form.encoding.startswith("utf-8") else f", text in {form.encoding}"
    quote = "" if form.quote == '"' else f", quoted by {form.quote}"
    return f"cells separated by {separator}{quote}{encoding}"


def _blocks(path: Path, form: Form, header: Header) -> Iterator[list[list[str]]]:
    """Rows of cells, each as wide as the header; blank lines are left out."""
    width = len(header.names) + header.blank
    with opened(path, form.encoding) as file:
        reader = form.reader(file)
        for _ in islice(reader, header.skipped):
            pass
        while lines := list(islice(reader, BLOCK)):
            block = [line for line in lines if any(line)]
            for line in block:
                if len(line) != width:
                    _refuse_width(path, reader, lines, width)
            yield [line[: len(header.names)] for line in block] if header.blank else block


def _refuse_width(path: Path, reader: CellReader, lines: list[list[str]], width: int) -> None:
    """Names the first line of another width; the line number is what an editor shows, unless cells hold line breaks."""
    for k, line in enumerate(lines):
        if any(line) and len(line) != width:
            at = reader.line_num - len(lines) + k + 1
            hint = "is the file cut short, or a separator inside a cell without quotes?"
            raise FedtierError("file", str(path), f"line {at} has {len(line)} cells, the header {width}", hint)


class _Column:
    """One column while it is read: blocks of numbers, or of words with one index for all blocks."""

    def __init__(self, is_text: bool) -> None:
        self.is_text, self.late = is_text, False
        self.parts: list[np.ndarray] = []
        self.index: dict[str, int] = {}

    def add(self, cells: tuple[str, ...]) -> None:
        if self.late:
            return
        values = None if self.is_text else _numbers(cells)
        if values is not None:
            self.parts.append(values)
        elif not self.is_text and self.parts:
            self.late = True  # words after numbers, whose spelling is gone: read again
        else:
            self.is_text, index = True, self.index
            self.parts.append(np.fromiter((index.setdefault(cell, len(index)) for cell in cells), np.int32, len(cells)))

    def read(self, missing_words: Collection[str]) -> Column:
        """The numbers, or the words as they are written."""
        values = np.concatenate(self.parts)
        if not self.is_text:
            return values
        levels = words(self.index, missing_words)  # the distinct cells, in the order of their codes
        return Words(levels.codes[values], levels.levels)

    def taken_for_missing(self, missing_words: Collection[str]) -> dict[str, int]:
        """Of a column of words: which texts count as missing, in how many rows."""
        counts = np.bincount(np.concatenate(self.parts), minlength=len(self.index)).tolist()
        return taken_for_missing(dict(zip(self.index, counts, strict=True)), missing_words)


def _numbers(cells: tuple[str, ...]) -> np.ndarray | None:
    """The cells as float64, what stands for missing as NaN; None when one is no number."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        try:
            values = np.fromiter(
                (float("nan" if (c := cell.strip()).lower() in MISSING else c) for cell in cells), np.float64, len(cells)
            )
        except ValueError:
            return None
    return None if _are_codes(cells) else values


def _are_codes(cells: tuple[str, ...]) -> bool:
    """Are there texts that Python takes for numbers, 007 or 1_000?"""
    text = "\n".join(("", *cells))
    return "_" in text or _LEADING_ZERO.search(text) is not None
