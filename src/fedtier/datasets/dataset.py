"""What a data set is: pooled rows in plain NumPy, and the checks that every source goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import FedtierError, require

CHUNK = 1 << 22  # numbers looked at in one go, so that a check costs no second copy of the data


Task = Literal["classification", "regression"]


class Dataset(NamedTuple):
    """All rows of a data set: the publisher's training rows first, then its test rows.

    The split into server, clients and test is the federation's business, so nothing is held back here. Images stay
    uint8 and are held once; a model sees (inputs - shift) * scale, best computed per batch.
    """

    name: str
    inputs: np.ndarray  # [N, ...] uint8 or float32; images [N, channels, height, width]
    labels: np.ndarray  # [N] int32, 0 .. classes - 1; or float32, the target of a regression
    label_names: tuple[str, ...]  # what class k was called at the source; () for a regression
    owner: np.ndarray | None = None  # [N] int32, 0 .. clients - 1: the natural client of each row
    owner_names: tuple[str, ...] = ()  # () when owners are mere numbers
    shift: Any = np.float32(0)  # a number, or an array that broadcasts against one row
    scale: Any = np.float32(1)
    test_rows: int = 0  # how many rows at the end are the publisher's test set
    columns: tuple[str, ...] = ()  # names of the features, for tables
    task: Task = "classification"

    @property
    def rows(self) -> int:
        """N."""
        return len(self.labels)

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

    def model_inputs(self, index: Any = slice(None)) -> np.ndarray:
        """(inputs - shift) * scale in float32, for the rows of `index`. Four times the memory of uint8: ask for a few."""
        return (self.inputs[index].astype(np.float32) - self.shift) * self.scale


def as_inputs(name: str, values: Any, columns: Sequence[str] = ()) -> np.ndarray:
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


def standardisation(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(shift, scale) that give mean 0 and variance 1: per channel for images, per column for tables.

    Taken over all rows, so the test rows' means leak in; labels do not. A constant column gets scale 1.
    """
    over = (0, *range(2, inputs.ndim)) if inputs.ndim == 4 else (0,) if inputs.ndim == 2 else tuple(range(inputs.ndim))
    kept = tuple(1 if axis in over else side for axis, side in enumerate(inputs.shape))
    count = inputs.size // int(np.prod(kept))
    mean, squares = np.zeros(kept), np.zeros(kept)
    for part in _parts(inputs):
        mean += np.sum(part, axis=over, dtype=np.float64, keepdims=True) / count
    for part in _parts(inputs):
        squares += np.sum((part - mean) ** 2, axis=over, keepdims=True) / count
    deviation = np.sqrt(squares)
    flat = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-30)  # what float32 cannot tell from a constant
    scale = 1.0 / np.where(flat, 1.0, deviation)
    return mean[0].astype(np.float32), scale[0].astype(np.float32)


def _parts(inputs: np.ndarray) -> list[np.ndarray]:
    step = max(1, CHUNK // inputs[0].size)
    return [inputs[start : start + step] for start in range(0, len(inputs), step)]
