"""How the rows of a table become the numbers that a model sees: fitted once, on training rows, then only applied.

Numbers: a missing one becomes the median of the training rows (or their mean, or 0), and a 0/1 column says that it was
missing; then mean 0 and deviation 1. Words: a 0/1 column per category that enough training rows have, one for all rarer or
unknown ones, one for missing. Columns that do not vary in the training rows are left out. Labels: classes by name, or, for a
regression, numbers with mean 0 and deviation 1.

scikit-learn fits (medians, deviations, which categories are frequent). What it found is kept as plain numbers and names, which
travel as JSON to the sites of a federation and to whoever predicts, and are applied by a few lines of NumPy:
scikit-learn's own objects could only be pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..errors import FedtierError, require
from ..storage.json_value import Json, as_list, as_whole
from . import table
from .table import Column, Table, Words, as_words

FORMAT = "fedtier-preparation-1"


class Number(NamedTuple):
    """A column of numbers: x -> (x - shift) * scale, a missing x as `fill`."""

    name: str
    fill: float
    shift: float
    scale: float
    missing: bool  # has a 0/1 column that says where it was missing


class Category(NamedTuple):
    """A column of words: a 0/1 column for each of these levels."""

    name: str
    levels: tuple[str, ...]
    other: bool  # has a column for rarer and unknown levels; without one they are 0 in all columns
    missing: bool  # has a column for missing


class Label(NamedTuple):
    """What is predicted: one of these classes, or a number."""

    name: str = "label"
    classes: tuple[str, ...] = ()  # () for a regression
    shift: float = 0.0  # of a regression: the model predicts (label - shift) * scale
    scale: float = 1.0

    @property
    def task(self) -> str:
        return "classification" if self.classes else "regression"

    @property
    def unit(self) -> float | None:
        """The deviation of the label in the training rows; None for classes."""
        return None if self.classes else 1.0 / self.scale


class Scaling(NamedTuple):
    """Rows that are arrays, such as images: x -> (x - shift) * scale."""

    shape: tuple[int, ...]
    shift: np.ndarray  # broadcasts against a row
    scale: np.ndarray


class Preparation(NamedTuple):
    """How rows become inputs: columns, categories, missing values and scaling, as fitted to training rows."""

    label: Label
    numbers: tuple[Number, ...] = ()
    categories: tuple[Category, ...] = ()
    scaling: Scaling | None = None  # instead of columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what a model sees: numbers, where numbers were missing, then categories."""
        flags = [f"{number.name} missing" for number in self.numbers if number.missing]
        levels = [
            f"{column.name} {word}"
            for column in self.categories
            for word in (*(f"= {level}" for level in column.levels), *["= other"] * column.other, *["missing"] * column.missing)
        ]
        return (*(number.name for number in self.numbers), *flags, *levels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row as a model sees it."""
        return self.scaling.shape if self.scaling else (len(self.columns),)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (*(number.name for number in self.numbers), *(column.name for column in self.categories))

    def apply(self, rows: Table | np.ndarray) -> np.ndarray:
        """[N, ...] float32, as a model sees them: of a table, whatever the order of its columns, or of an array."""
        if self.scaling is not None:
            return _scaled(self.scaling, rows)
        if not isinstance(rows, Table):
            rows = self._by_place(np.asarray(rows))
        absent = [name for name in self.needs if name not in rows.columns]
        require(
            not absent,
            "data",
            NOT_THERE,
            f"there is no column {', '.join(absent[:3])}",
            f"there are: {', '.join([*rows.columns][:10])}",
        )
        out = np.zeros((rows.rows, len(self.columns)), np.float32)
        place = len(self.numbers)
        for k, number in enumerate(self.numbers):
            values = _numbers(number.name, rows.columns[number.name])
            empty = ~np.isfinite(values)
            out[:, k] = (np.where(empty, number.fill, values) - number.shift) * number.scale
            if number.missing:
                out[:, place] = empty
                place += 1
        for column in self.categories:
            place += _flag(out[:, place:], column, as_words(rows.columns[column.name]))
        return out

    def _by_place(self, values: np.ndarray) -> Table:
        fits = values.ndim == 2 and values.shape[1] == len(self.needs) and not self.categories
        require(
            fits,
            "data",
            values.shape,
            f"must have {len(self.needs)} columns of numbers",
            f"in this order: {', '.join(self.needs[:10])}",
        )
        return Table({name: values[:, k].astype(np.float64) for k, name in enumerate(self.needs)}, len(values))

    def to_json(self) -> str:
        parts = self.scaling and {key: np.asarray(value).tolist() for key, value in self.scaling._asdict().items()}
        content = {
            "format": FORMAT, "label": self.label._asdict(), "numbers": [number._asdict() for number in self.numbers],
            "categories": [column._asdict() for column in self.categories], "scaling": parts,
        }  # fmt: skip
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> Preparation:
        """Refuses what `to_json` has not written."""
        try:
            content = json.loads(text)
            require(content.get("format") == FORMAT, "preparation", content.get("format"), f"must be {FORMAT}")
            label = Label(**content["label"] | {"classes": tuple(map(str, content["label"]["classes"]))})
            numbers = tuple(Number(**number) for number in content["numbers"])
            categories = tuple(
                Category(**column | {"levels": tuple(map(str, column["levels"]))}) for column in content["categories"]
            )
            scaling = content["scaling"] and _scaling(content["scaling"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, FedtierError):
                raise
            raise FedtierError("preparation", f"{len(text)} characters", f"cannot be understood: {error}") from None
        return cls(label, numbers, categories, scaling)


NOT_THERE = "rows to predict"
NO_NUMBER = "words"
PLAIN = "write decimals behind a point, and nothing between thousands"


def _scaling(content: Mapping[str, Json]) -> Scaling:
    shape = tuple(map(as_whole, as_list(content["shape"])))
    return Scaling(shape, *(np.asarray(content[key], np.float32) for key in ("shift", "scale")))


def _scaled(scaling: Scaling, rows: object) -> np.ndarray:
    rows = np.asarray(rows)
    require(rows.shape[1:] == scaling.shape, "data", rows.shape[1:], f"must be rows of shape {scaling.shape}")
    return (rows.astype(np.float32) - scaling.shift) * scaling.scale


def _flag(out: np.ndarray, column: Category, words: Words) -> int:
    """Writes the 0/1 columns of a category; how many there are."""
    known, kinds = len(column.levels), len(column.levels) + column.other + column.missing
    place = {level: k for k, level in enumerate(column.levels)}
    other = known if column.other else kinds  # beyond the last column: 0 everywhere
    gone = known + column.other if column.missing else kinds
    at = np.asarray([*(place.get(level, other) for level in words.levels), gone])[words.codes]
    rows = np.flatnonzero(at < kinds)
    out[rows, at[rows]] = 1.0
    return kinds


def _numbers(name: str, column: Column) -> np.ndarray:
    if isinstance(column, Words):
        table.refuse_either(name, column, PLAIN)
        rule = "must be a number, as this column's values were in the training rows"
        odd = next(level for level in (*column.levels, NO_NUMBER) if np.isnan(table.number(level)))
        raise FedtierError(f"column {name}", odd, rule, "are these the same tables?")
    return column
