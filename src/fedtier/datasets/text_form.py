"""The form of a text file of cells: how it is packed and encoded, what separates its cells, where its columns are named."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..errors import FedtierError, require

SAMPLE = 1 << 17  # characters that are looked at to find the separator
SEPARATORS = (",", ";", "\t", "|", " ")
PACKED: dict[str, Callable[[Path], gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File]] = {
    ".gz": gzip.GzipFile,
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
}
ENDINGS = (".csv", ".tsv", ".txt", ".data", ".dat", ".tab")


@runtime_checkable
class CellReader(Protocol):
    """What the csv module gives: the cells of one line after another, and how many lines have been read."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


class Form(NamedTuple):
    """How cells are told apart."""

    separator: str
    quote: str
    encoding: str
    strict: bool = False  # refuse a quote inside a cell, and one that is never closed

    def reader(self, lines: Iterable[str]) -> CellReader:
        return csv.reader(lines, delimiter=self.separator, quotechar=self.quote, skipinitialspace=True, strict=self.strict)


class Header(NamedTuple):
    names: list[str]
    skipped: int  # lines before the first row of cells
    nameless: bool  # the first column has no name: it may be the numbers or names of the rows
    blank: int  # 1: rows end in a separator, so that a last, empty cell follows
    notes: tuple[str, ...]
    twice: frozenset[str] = frozenset()  # names that stand above several columns


def is_delimited(path: Path) -> bool:
    inner = path.with_suffix("") if path.suffix.lower() in (*PACKED, ".zip") else path
    return inner.suffix.lower() in ENDINGS or (path.suffix.lower() == ".zip")


def opened(path: Path, encoding: str) -> io.TextIOWrapper:
    """The text inside, unpacked on the way."""
    ending = path.suffix.lower()
    unpack = _member if ending == ".zip" else PACKED.get(ending)
    raw = path.open("rb") if unpack is None else unpack(path)
    return io.TextIOWrapper(raw, encoding=encoding, newline="")


def _member(path: Path) -> zipfile.ZipExtFile:
    archive = zipfile.ZipFile(path)
    inside = [
        entry.filename for entry in archive.infolist() if not entry.is_dir() and not entry.filename.startswith("__MACOSX")
    ]
    inside = [name for name in inside if Path(name).suffix.lower() in ENDINGS] or inside
    if len(inside) != 1:
        rule = f"must hold one table, but holds {', '.join(inside[:5]) or 'nothing'}"
        raise FedtierError("file", str(path), rule, "unpack it and name the file that is meant")
    return archive.open(inside[0])  # pyright: ignore[reportReturnType]  it is one


def encodings(path: Path) -> tuple[str, ...]:
    with opened(path, "latin-1") as file:
        first = file.read(4).encode("latin-1")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ("utf-16",)
    return ("utf-8-sig", "cp1252", "latin-1")


def find_form(path: Path, encoding: str) -> Form:
    """The separator under which most lines have the header's number of cells, and more than one."""
    with opened(path, encoding) as file:
        text = file.read(SAMPLE)
    require(
        "\0" not in text,
        "file",
        str(path),
        "is no text: it holds zero bytes",
        f"tables are {', '.join(ENDINGS)}, .parquet or .npz",
    )
    lines = list(io.StringIO(text, newline=""))
    named = next((line.strip()[4:5] or "\t" for line in lines[:1] if line.lower().startswith("sep=")), "")
    lines = lines[:-1] if len(text) == SAMPLE and len(lines) > 2 else lines
    best, most = Form(named or ",", '"', encoding), (0.0, 0)
    for separator in (named,) if named else SEPARATORS:
        for quote in ('"', "'"):
            form = Form(separator, quote, encoding)
            score = _agreement(form, lines)
            if score > most:
                best, most = form, score
    marks = next(csv.reader(lines, delimiter=best.separator, quoting=csv.QUOTE_NONE), [])
    quoted = bool(marks) and all(len(cell) > 1 and cell.strip()[:1] == cell.strip()[-1:] == "'" for cell in marks)
    return best._replace(quote="'") if quoted else best


def _agreement(form: Form, lines: list[str]) -> tuple[float, int]:
    """(share of the lines that have the commonest number of cells, that number); a header of another width counts against."""
    rows = [row for row in islice(form.reader(lines), 500) if row and any(row)]
    if len(rows) == 0:
        return 0.0, 0
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if width < 2:
        return 0.0, 0
    head = next((len(row) for row in rows if not row[0].startswith("#")), len(rows[0]))
    fits = {width: 1.0, width - 1: 0.9}.get(head, 0.25)  # R writes no name above the names of the rows
    return round(fits * count / len(rows), 2) - 0.01 * SEPARATORS.index(form.separator), width


def find_header(path: Path, form: Form, named: bool) -> Header:
    with opened(path, form.encoding) as file:
        first = [row for row in islice(form.reader(file), 200)]
    filled = [row for row in first if any(row)]
    require(bool(filled), "file", str(path), "is empty", "the first line names the columns")
    width = Counter(map(len, filled)).most_common(1)[0][0]
    start = next(k for k, row in enumerate(first) if len(row) in (width, width - 1) and any(row) and not _is_comment(row))
    cells = [cell.strip() for cell in first[start]]
    body = [row for row in first[start + 1 :] if any(row)]
    if not named:
        return Header([f"column {k + 1}" for k in range(width)], start, False, 0, ())
    above = any(any(row) and not _is_comment(row) for row in first[:start])
    numeric = len(cells) > 1 and (any if above else all)(_is_number(cell) for cell in cells)
    rule = f"starts with the numbers {', '.join(cells[:3])}, ..., where the names of the columns should stand"
    require(
        not numeric,
        "file",
        str(path),
        rule,
        "if it has no header line: header = false; columns are then 'column 1', ...",
    )
    wider = bool(body) and all(len(row) == len(cells) + 1 for row in body)
    blank = wider and all(not row[-1].strip() for row in body)
    names = [*([""] if wider and not blank else []), *cells]
    twice = frozenset(name for name, times in Counter(names).items() if name and times > 1)
    nameless, (names, notes) = not names[0], _unique(names)
    notes += (f"the first {start} lines are left out",) * above
    return Header(names, start + 1, nameless, int(blank), notes, twice)


def _is_comment(row: list[str]) -> bool:
    return row[0].startswith("#") or row[0].lower().startswith("sep=")


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _unique(names: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """A name for every column: its place where it has none, a number behind it where another has the same."""
    out: list[str] = []
    notes = []
    for k, name in enumerate(names):
        plain = name or f"column {k + 1}"
        free = next(new for new in (plain, *(f"{plain} ({n})" for n in range(2, len(names) + 2))) if new not in out)
        if free != plain:
            notes.append(f"two columns are called {plain!r}: the second is {free!r} here")
        out.append(free)
    return out, tuple(notes)
