"""What is predicted, and who owns a row: columns of any kind become classes, numbers or owners, and the names are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..errors import NOTHING, FedtierError, choice, require
from .table import EXACT, Column, Words, as_words, missing, refuse_either, settled

TASKS = ("auto", "classification", "binary", "regression")
FEW, MANY, ROWS_EACH = 20, 100, 10  # whole numbers are classes up to FEW values, or up to MANY that have ROWS_EACH rows each
Gone = Mapping[str, int]  # texts that count as missing, and in how many rows each stands
NO_TEXTS: Gone = MappingProxyType({})
DROP = 'missing = "drop" leaves such rows out'


class Target(NamedTuple):
    values: np.ndarray  # [N] int32 codes of the classes, or float64
    classes: tuple[str, ...]  # what class k is called; () for a regression
    why: str  # how the task was chosen, in words


def target(name: str, column: Column, task: str = "auto", *, decimal: str = "", gone: Gone = NO_TEXTS) -> Target:
    """The label's column as classes or numbers; `decimal` as in `table.settled`, `gone` as in `refuse_missing`.

    Words are classes. Whole numbers are classes up to FEW different ones, or up to MANY where each has ROWS_EACH rows on
    average; others, and numbers with a fraction (unless there are only two), are the target of a regression.
    """
    choice("task", task, TASKS)
    refuse_missing(f"label {name}", column, gone)
    numbers = _as_numbers(name, column, decimal)
    merged = numbers is None or (isinstance(column, Words) and bool(np.any(np.abs(numbers) >= EXACT)))
    count = len(np.unique(as_words(column).codes if numbers is None or merged else numbers))
    require(count > 1, f"label {name}", _first(column), "is the same in all rows", "there is nothing to predict")
    if task == "auto":
        task, why = _chosen(name, numbers, count, len(missing(column)))
    else:
        why = f"{task}, as named"
    if task == "regression":
        require(numbers is not None, "task", task, f"the label {name} holds words", 'task = "classification"')
        return Target(np.asarray(numbers, np.float64), (), why)
    require(task != "binary" or count == 2, "task", task, f"the label {name} has {count} values, not 2", "classification")
    return Target(*ordered(f"label {name}", column if isinstance(column, Words) else as_words(column)), why)


def _chosen(name: str, numbers: np.ndarray | None, count: int, rows: int) -> tuple[str, str]:
    if numbers is None:
        rule = f"holds {count} different texts in {rows} rows"
        require(count <= 50 or count <= rows / 2, "label", name, rule, "is this the column to predict?")
        return "classification", f"{count} different words"
    whole = bool(np.all(numbers == np.floor(numbers)))
    if count == 2 or (whole and (count <= FEW or (count <= MANY and rows >= ROWS_EACH * count))):
        return "classification", f"{count} different {'whole ' * whole}numbers"
    return "regression", f"{count} different numbers"


def _as_numbers(name: str, column: Column, decimal: str) -> np.ndarray | None:
    """The column as numbers; None where it holds words, true and false among them."""
    if not isinstance(column, Words):
        return column
    if {level.lower() for level in column.levels} <= {"true", "false"}:
        return None
    found = settled(column, decimal)[0]
    refuse_either(name, found)
    return None if isinstance(found, Words) or np.isnan(found).any() else found


def ordered(name: str, column: Words, gone: Gone = NO_TEXTS) -> tuple[np.ndarray, tuple[str, ...]]:
    """(codes [N] int32, names [K]): names[codes[i]] is what row i says.

    Whole numbers are ordered as numbers, anything else, codes such as 007 included, as text. A level that no row has gets
    no code.
    """
    refuse_missing(name, column, gone)
    used = np.unique(column.codes)
    levels = [column.levels[code] for code in used]
    whole = all(re.fullmatch(r"[+-]?(0|[1-9]\d*)", level) for level in levels)
    order = sorted(range(len(levels)), key=lambda k: int(levels[k]) if whole else levels[k])
    codes = np.empty(len(column.levels), np.int32)
    codes[used[order]] = np.arange(len(levels), dtype=np.int32)
    return codes[column.codes], tuple(levels[k] for k in order)


def known(name: str, column: Column, names: Sequence[str]) -> np.ndarray:
    """codes [N] int32 by names that are given: those of a server, to which a site's labels must belong."""
    found = as_words(column)
    refuse_missing(name, found)
    place = {text: code for code, text in enumerate(names)}
    for level in found.levels:
        require(level in place, name, level, "is no label of this federation", f"known: {', '.join(names)}")
    return np.asarray([place[level] for level in found.levels], np.int32)[found.codes]


def refuse_missing(name: str, column: Column, gone: Gone = NO_TEXTS) -> None:
    """Refuses a column with missing values; `gone` has the texts that were taken for one, and in how many rows."""
    empty = missing(column) if isinstance(column, Words) else ~np.isfinite(column)
    if empty.any():
        more = f", as in {int(empty.sum()) - 1} rows more" * bool(empty.sum() > 1)
        texts = f"; taken for missing: {told(gone)}" if gone else ""
        keep = "; missing_words = [] takes only empty cells for missing" if gone else ""
        rule = f"is missing in row {int(np.argmax(empty))}{more} (rows count from 0){texts}"
        raise FedtierError(name, NOTHING, rule, DROP + keep)


def told(gone: Gone) -> str:
    """Texts and how often each stands there, in words."""
    return ", ".join(f"{text!r} in {n} row{'s' * (n > 1)}" for text, n in gone.items())


def _first(column: Column) -> str | float:
    return (
        column.levels[0]
        if isinstance(column, Words) and column.levels
        else "missing"
        if isinstance(column, Words)
        else float(column[0])
    )
