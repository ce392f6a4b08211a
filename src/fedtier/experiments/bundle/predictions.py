"""What a model says of some rows: a class and how likely each is, or a number."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...datasets.preparation import Label
from ...errors import NOTHING, FedtierError
from ...storage.files import write_whole

SHOWN = 5  # values that it prints


class Predictions(NamedTuple):
    """One row for each row given, in its order."""

    label: Label
    values: np.ndarray  # [N] names of classes, or numbers in the label's own unit
    probabilities: np.ndarray | None  # [N, K] in the order of `classes`; None for a regression
    truth: np.ndarray | None = None  # [N] what the rows themselves say, like `values`; None where they do not say
    unused: tuple[str, ...] = ()  # columns of the rows that the model does not look at

    def __repr__(self) -> str:
        shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in self.values[:SHOWN].tolist()]
        more = ", ..." if len(self.values) > SHOWN else ""
        scores = {"accuracy": self.accuracy, "rmse": self.rmse}
        told = "".join(f"; {name} {value:.4g}" for name, value in scores.items() if value is not None)
        count = f"{len(self.values)} row{'' if len(self.values) == 1 else 's'}"
        return f"Predictions({self.label.name} of {count}: {', '.join(shown)}{more}{told})"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; () for a regression."""
        return self.label.classes

    @property
    def accuracy(self) -> float | None:
        """The share of the rows whose class is right; None where the rows do not tell, or the label is a number."""
        return None if self.truth is None or not self.classes else float(np.mean(self.values == self.truth))

    @property
    def rmse(self) -> float | None:
        """The root of the mean squared error of a regression, in the label's own unit; None where rows do not tell."""
        return None if self.truth is None or self.classes else float(np.sqrt(np.mean((self.values - self.truth) ** 2)))

    def columns(self) -> dict[str, np.ndarray]:
        """`predicted`, then `probability CLASS` for each class."""
        found = {"predicted": self.values}
        if self.probabilities is not None:
            found |= {f"probability {name}": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        return found

    def to_csv(self, path: str | Path | None = None) -> str:
        """The columns as text, written to `path` where one is given."""
        text, columns = io.StringIO(), self.columns()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        if path is not None:
            write_whole(Path(path), text.getvalue().encode())
        return text.getvalue()

    def to_pandas(self) -> Any:
        """The columns as a DataFrame, where pandas is installed."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise FedtierError("to_pandas", NOTHING, "needs the package pandas", "pip install pandas, or to_csv") from None
        return pandas.DataFrame(self.columns())


def predictions_of(label: Label, outputs: np.ndarray, truth: np.ndarray | None = None) -> Predictions:
    """What a model's outputs [N, K] mean: logits of the classes, or the prepared label of a regression."""
    outputs = np.asarray(outputs, np.float64)
    if not label.classes:
        return Predictions(label, outputs[:, 0] / label.scale + label.shift, None, truth)
    grown = np.exp(outputs - outputs.max(axis=1, keepdims=True, initial=-np.inf))
    names = np.asarray(label.classes, dtype=np.str_)
    return Predictions(label, names[outputs.argmax(axis=1)], grown / grown.sum(axis=1, keepdims=True), truth)
