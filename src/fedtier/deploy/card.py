"""What a site must know of the data before it can read its own: the form of a row, the labels, the scaling.

The server says it, from its own rows or from its file; nothing here is ever computed from the sites' rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..datasets import Dataset
from ..datasets.labels import known
from ..datasets.own import read_table
from ..errors import FedtierError, require


class Card(NamedTuple):
    shape: tuple[int, ...]  # of one row
    labels: tuple[str, ...]  # what class k is called
    columns: tuple[str, ...]  # names of the features, for tables; () = by position
    shift: np.ndarray  # a model sees (inputs - shift) * scale
    scale: np.ndarray

    def as_object(self) -> dict[str, Any]:
        numbers = {key: {"shape": list(a.shape), "values": a.reshape(-1).tolist()} for key, a in self._scaling().items()}
        return {"shape": list(self.shape), "labels": list(self.labels), "columns": list(self.columns)} | numbers

    def _scaling(self) -> dict[str, np.ndarray]:
        return {"shift": np.asarray(self.shift, np.float32), "scale": np.asarray(self.scale, np.float32)}

    @classmethod
    def from_object(cls, content: dict[str, Any]) -> Card:
        def numbers(part: dict[str, Any]) -> np.ndarray:
            return np.asarray(part["values"], np.float32).reshape(part["shape"])

        shape = tuple(int(side) for side in content["shape"])
        labels, columns = (tuple(map(str, content[key])) for key in ("labels", "columns"))
        return cls(shape, labels, columns, numbers(content["shift"]), numbers(content["scale"]))


def open_rows(path: Path, label: str, card: Card, image_size: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, label codes) of a file by the card of the federation; refused where they do not fit."""
    inputs, labels, _, columns = read_table(path, label, None, image_size)
    if card.columns and columns and columns != card.columns:
        missing = sorted(set(card.columns) - set(columns))
        require(not missing, "data", str(path), f"has no column {', '.join(missing[:3])}", f"it has: {', '.join(columns[:10])}")
        inputs = inputs[:, [columns.index(name) for name in card.columns]]
    if inputs.shape[1:] != card.shape:
        rule = f"has rows of shape {inputs.shape[1:]}, the federation has {card.shape}"
        raise FedtierError("data", str(path), rule, "the same columns, or images of the same size")
    return inputs, known(f"{path.name}: labels", labels, len(inputs), card.labels)


def dataset_of(name: str, card: Card, inputs: np.ndarray, labels: np.ndarray) -> Dataset:
    return Dataset(name, inputs, labels, card.labels, shift=card.shift, scale=card.scale, columns=card.columns)
