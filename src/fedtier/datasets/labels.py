"""What is predicted, and who owns a row: columns of any kind become classes, numbers or owners, and the names are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import FedtierError, choice, require
from .table import Column, Words, as_words, missing, settled

TASKS = ("auto", "classification", "binary", "regression")
FEW, MANY, ROWS_EACH = 20, 100, 10  # whole numbers are classes up to FEW values, or up to MANY that have ROWS_EACH rows each
DROP = 'missing = "drop" leaves such rows out'


class Target(NamedTuple):
    values: np.ndarray  # [N] int32 codes of the classes, or float64
    classes: tuple[str, ...]  # what class k is called; () for a regression
    why: str  # how the task was chosen, in words


def target(name: str, column: Column, task: str = "auto") -> Target:
    """The label's column as classes or numbers.

    Words are classes. Whole numbers are classes up to FEW different ones, or up to MANY where each has ROWS_EACH rows on
    average; others, and numbers with a fraction (unless there are only two), are the target of a regression.
    """
    choice("task", task, TASKS)
    refuse_missing(f"label {name}", column)
    numbers = _as_numbers(column)
    count = len(np.unique(as_words(column).codes if numbers is None else numbers))
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


def _as_numbers(column: Column) -> np.ndarray | None:
    """The column as numbers; None where it holds words, true and false among them."""
    if not isinstance(column, Words):
        return column
    if {level.lower() for level in column.levels} <= {"true", "false"}:
        return None
    found = settled(column)[0]
    return None if isinstance(found, Words) or np.isnan(found).any() else found


def ordered(name: str, column: Words) -> tuple[np.ndarray, tuple[str, ...]]:
    """(codes [N] int32, names [K]): names[codes[i]] is what row i says.

    Whole numbers are ordered as numbers, anything else, codes such as 007 included, as text. A level that no row has gets
    no code.
    """
    refuse_missing(name, column)
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


def refuse_missing(name: str, column: Column) -> None:
    gone = missing(column) if isinstance(column, Words) else ~np.isfinite(column)
    if gone.any():
        more = f", as in {int(gone.sum()) - 1} rows more" * bool(gone.sum() > 1)
        raise FedtierError(name, f"row {int(np.argmax(gone))}", f"is missing{more} (rows count from 0)", DROP)


def _first(column: Column) -> Any:
    return (
        column.levels[0]
        if isinstance(column, Words) and column.levels
        else "missing"
        if isinstance(column, Words)
        else float(column[0])
    )
