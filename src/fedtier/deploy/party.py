"""A party's rows by the preparation that the server has fitted: the same columns, categories, scaling and labels everywhere.

The server fits it to its own rows; nothing in it is ever computed from the sites' rows. It travels as JSON in the brief.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..datasets import Dataset, Preparation
from ..datasets.content import read_array, read_labelled
from ..datasets.labels import known, refuse_missing
from ..datasets.table import Column, Words, settled
from ..errors import called, require


class Party(NamedTuple):
    inputs: np.ndarray  # [N, ...] as a model gets them; arrays as they are stored
    labels: np.ndarray  # [N] int32 codes, or float32 as a regression predicts them


@called({"file": "data"})
def open_rows(path: Path, label: str, preparation: Preparation, image_size: int | None = None) -> Party:
    """The rows of a file, prepared; refused where they do not fit."""
    if preparation.scaling is not None:
        inputs, column = read_array(path, label, image_size)
        shape = preparation.scaling.shape
        rule = f"has rows of shape {inputs.shape[1:]}, the federation has {shape}"
        require(inputs.shape[1:] == shape, "data", str(path), rule, "the same columns, or images of the same size")
        return Party(inputs, _labels(path, column, preparation))
    table, column = read_labelled(path, label, [category.name for category in preparation.categories])
    return Party(preparation.apply(table), _labels(path, column, preparation))


def _labels(path: Path, column: Column, preparation: Preparation) -> np.ndarray:
    name, label = f"{path.name}: labels", preparation.label
    if label.classes:
        return known(name, column, label.classes)
    numbers = settled(column)[0] if isinstance(column, Words) else column
    require(not isinstance(numbers, Words), name, "words", "must be numbers, as at the server")
    refuse_missing(name, numbers)
    return ((np.asarray(numbers) - label.shift) * label.scale).astype(np.float32)


def dataset_of(name: str, preparation: Preparation, party: Party) -> Dataset:
    scaling, label = preparation.scaling, preparation.label
    dataset = Dataset(
        name, party.inputs, party.labels, label.classes, columns=preparation.columns, label=label.name,
        task="classification" if label.classes else "regression", preparations=(preparation,),
    )  # fmt: skip
    return dataset if scaling is None else dataset._replace(shift=scaling.shift, scale=scaling.scale)
