"""What a data set is: pooled rows in plain NumPy, and the checks that every source goes through."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..errors import FedtierError, require
from . import fitting
from .preparation import Label, Preparation, Scaling
from .table import Table, Words

CHUNK = 1 << 22  # numbers looked at in one go, so that a check costs no second copy of the data
STRATA = 10  # groups of equal size into which the numbers of a regression are cut where classes are asked for

Task = Literal["classification", "regression", "two_level"]  # two_level: the quadratic with a closed form, no labels


class Raw(NamedTuple):
    """Rows that are not a model's inputs yet: a table, or an array that is to be scaled; and how that is to be done."""

    rows: Table | np.ndarray
    fill: fitting.Fill = "median"  # what takes the place of a missing number
    most: int = 100  # columns that a category gets at most

    def take(self, rows: np.ndarray) -> Raw:
        return self._replace(rows=self.rows.take(rows) if isinstance(self.rows, Table) else self.rows[rows])


class Split(NamedTuple):
    """Who has which rows, by their numbers, where the publisher says so; a row may stand in several parts."""

    test: np.ndarray  # judges the global model
    server: np.ndarray  # the server's own; empty: none
    train: tuple[np.ndarray, ...]  # each owner's
    held: tuple[np.ndarray, ...]  # judges the models of each owner


class Dataset(NamedTuple):
    """All rows of a data set: the publisher's training rows first, then its test rows.

    The split into server, clients and test is the federation's business, so nothing is held back here. Images stay
    uint8 and are held once; a model sees (inputs - shift) * scale, best computed per batch.

    What has to be fitted to the rows is fitted to training rows alone, and these differ by seed: a set with `raw` has no inputs
    until `prepared`, which then holds the rows once for each seed, one block of N rows after the other.
    """

    name: str
    inputs: np.ndarray  # [N, ...] uint8 or float32; images [N, channels, height, width]; [N, 0] before `prepared`
    labels: np.ndarray  # [N] int32, 0 .. classes - 1; or floats, the target of a regression
    label_names: tuple[str, ...]  # what class k was called at the source; () for a regression
    owner: np.ndarray | None = None  # [N] int32, 0 .. clients - 1: the natural client of each row
    owner_names: tuple[str, ...] = ()  # () when owners are mere numbers
    shift: np.ndarray | np.floating = np.float32(0)  # a number, or an array that broadcasts against one row
    scale: np.ndarray | np.floating = np.float32(1)
    test_rows: int = 0  # how many rows at the end are the publisher's test set
    columns: tuple[str, ...] = ()  # names of the features, for tables
    task: Task = "classification"
    weights: np.ndarray | None = None  # [N] how much a row counts in the loss
    label: str = "label"  # what the label is called
    tenths: tuple[np.ndarray, tuple[str, ...]] | None = (
        None  # of a regression: which tenth of the labels a row has, their names
    )
    raw: Raw | None = None  # what is yet to be prepared
    preparations: tuple[Preparation, ...] = ()  # how each block was prepared; () where nothing had to be fitted
    split: Split | None = None  # None: the split is drawn
    notes: tuple[str, ...] = ()  # what reading decided, in words
    decimal: str = ""  # what stands before decimals in the source's numbers with commas; "": it has none, or nobody knows

    @property
    def blocks(self) -> int:
        return max(1, len(self.preparations))

    @property
    def rows(self) -> int:
        """N."""
        return len(self.labels) // self.blocks

    @property
    def classes(self) -> int:
        return len(self.label_names)

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for a row: one per class, or the one prediction of a regression."""
        return 1 if self.task == "regression" else self.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row: (channels, height, width) for images, (features,) for tables."""
        return self.inputs.shape[1:]

    @property
    def clients(self) -> int:
        """How many natural clients there are; 0 when rows have no owner."""
        return 0 if self.owner is None else int(self.owner.max()) + 1

    def digest(self) -> str:
        """Twelve letters for all that a result depends on: the rows, labels, owners and weights, what they are called, and how
        they were prepared, or what is yet to be prepared. Results on other data are other results."""
        content = hashlib.blake2b(digest_size=6)
        names = (self.task, self.test_rows, self.label, self.label_names, self.owner_names, self.columns)
        content.update(repr((names, *(one.to_json() for one in self.preparations))).encode())
        for values in (
            self.inputs,
            self.labels,
            self.owner,
            self.weights,
            self.shift,
            self.scale,
            *_parts_of(self.raw),
            *_rows_of(self.split),
        ):
            array = np.zeros(0) if values is None else np.asarray(values)
            content.update(repr((array.dtype.str, array.shape)).encode())
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    @property
    def strata(self) -> np.ndarray:
        """[N] int32: the classes, or for a regression the tenths of the rows by label."""
        return self.labels[: self.rows] if self.tenths is None else self.tenths[0]

    @property
    def strata_names(self) -> tuple[str, ...]:
        return self.label_names if self.tenths is None else self.tenths[1]

    @property
    def preparation(self) -> Preparation:
        """How rows become inputs, for the first seed: what a prediction in another process needs."""
        if self.preparations:
            return self.preparations[0]
        scaling = Scaling(self.shape, np.asarray(self.shift, np.float32), np.asarray(self.scale, np.float32))
        return Preparation(Label(self.label, self.label_names), scaling=scaling)

    def model_inputs(self, index: int | np.ndarray | slice = slice(None)) -> np.ndarray:
        """(inputs - shift) * scale in float32, for the rows of `index`. Four times the memory of uint8: ask for a few."""
        return (self.inputs[index].astype(np.float32) - self.shift) * self.scale

    def take(self, rows: np.ndarray) -> Dataset:
        """These rows alone, of a set that is not prepared yet."""
        raw = None if self.raw is None else self.raw.take(rows)
        owner, weights = (None if a is None else a[rows] for a in (self.owner, self.weights))
        tenths = None if self.tenths is None else tenths_of(self.labels[rows])
        return self._replace(
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            owner=owner,
            weights=weights,
            raw=raw,
            tenths=tenths,
            test_rows=0,
        )

    def prepared(self, training: Sequence[np.ndarray]) -> Dataset:
        """The inputs, fitted to the training rows of each seed; the set itself where nothing is to be fitted.

        Seeds that leave a column out which another keeps have zeros in its place, at the end.
        """
        if self.raw is None:
            return self._replace(weights=None if self.weights is None else _mean_one(self.weights, training[0]))
        found, notes = zip(*(self._fitted(self.raw, rows) for rows in training), strict=True)
        width = max(preparation.shape for preparation in found)
        inputs = np.zeros((len(found) * self.rows, *width), np.float32)
        labels = np.empty(len(inputs), np.int32 if self.classes else np.float32)
        weights = None if self.weights is None else np.empty(len(inputs), np.float32)
        for k, (preparation, rows) in enumerate(zip(found, training, strict=True)):
            block, label = slice(k * self.rows, (k + 1) * self.rows), preparation.label
            values = preparation.apply(self.raw.rows)
            inputs[block][..., : values.shape[-1]] = values
            labels[block] = self.labels if self.classes else (self.labels - label.shift) * label.scale
            if weights is not None and self.weights is not None:
                weights[block] = _mean_one(self.weights, rows)
        return self._replace(
            inputs=inputs, labels=labels, weights=weights, columns=found[0].columns, raw=None, preparations=tuple(found),
            notes=(*self.notes, *notes[0]),
        )  # fmt: skip

    def _fitted(self, raw: Raw, rows: np.ndarray) -> tuple[Preparation, list[str]]:
        label = fitting.fit_label(self.label, self.labels, self.label_names, rows)
        if isinstance(raw.rows, Table):
            return fitting.fit(raw.rows, rows, label, fill=raw.fill, most=raw.most)
        return fitting.fit_scaling(raw.rows, rows, label), []


def _parts_of(raw: Raw | None) -> list[np.ndarray]:
    """What is yet to be prepared as plain arrays, the names and the settings among them."""
    if raw is None:
        return []
    table = raw.rows.columns if isinstance(raw.rows, Table) else {"": raw.rows}
    words = {name: column.levels for name, column in table.items() if isinstance(column, Words)}
    told = repr((raw.fill, raw.most, [*table], words)).encode()
    values = (column.codes if isinstance(column, Words) else column for column in table.values())
    return [np.frombuffer(told, np.uint8), *values]


def tenths_of(labels: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Which tenth of all labels each one lies in, and the tenths in words; fewer groups where labels are often equal."""
    cuts = np.unique(np.quantile(labels, np.arange(1, STRATA) / STRATA))
    words = [f"{cut:.4g}" for cut in cuts]
    between = (f"{a} to {b}" for a, b in itertools.pairwise(words))
    names = (f"below {words[0]}", *between, f"from {words[-1]}")
    return np.searchsorted(cuts, labels, side="right").astype(np.int32), names


def _rows_of(split: Split | None) -> tuple[np.ndarray, ...]:
    return () if split is None else (split.test, split.server, *split.train, *split.held)


def _mean_one(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Weights whose mean over these rows is 1."""
    return (weights / weights[rows].mean()).astype(np.float32)


def as_inputs(name: str, values: object, columns: Sequence[str] = ()) -> np.ndarray:
    """`values` as uint8 (kept, no copy) or float32; refused when empty, not numeric or not finite."""
    values = np.asarray(values)
    kind = values.dtype.kind
    require(kind in "buif", name, f"dtype {values.dtype}", "must hold numbers", "encode text and dates as numbers first")
    require(values.ndim >= 1 and len(values) > 0, name, values.shape, "holds no rows")
    require(values.ndim >= 2 and values[0].size > 0, name, values.shape, "must have the form [rows, ...features]")
    if kind == "b":
        return values.view(np.uint8)
    if values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, dtype=np.float32)
    check_finite(name, narrow, columns)
    return narrow


def check_finite(name: str, values: np.ndarray, columns: Sequence[str] = ()) -> None:
    """Refuses NaN and infinite values, naming the first row and column."""
    flat = values.reshape(len(values), -1)
    step = max(1, CHUNK // flat.shape[1])
    for start in range(0, len(flat), step):
        finite = np.isfinite(flat[start : start + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            where = f"row {start + row}, column {columns[column] if columns else column}"
            raise FedtierError(
                name,
                float(flat[start + row, column]),
                f"must be finite and fit into float32, but {where} is not (rows count from 0)",
                "fill in or drop missing values before loading",
            )
