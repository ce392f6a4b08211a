"""Rows that a function of the user's makes, or that a program has in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..datasets import OPTIONS, SETS, Dataset
from ..datasets.dataset import as_inputs, tenths_of
from ..datasets.frames import is_frame
from ..datasets.labels import ordered
from ..datasets.table import as_words, unsettled
from ..errors import FedtierError, require
from .by_path import calling, find, signature_of
from .naming import short


def own_data(word: str, options: Mapping[str, object]) -> Dataset:
    """The rows of the loader that data.name stands for; `options` are its own, and those of a table that it may return."""
    loader, known = find("data.name", word), signature_of("data.name", word)
    rule = f"asks for {', '.join(known.required)} without a default"
    require(not known.required, "data.name", str(word), rule, "def load(*, rows=100): give every option a default")
    given = {key: value for key, value in options.items() if key in known.options and value is not None}
    with calling("data.name", word):
        found = loader(**given)
    return as_dataset(found, {key: value for key, value in options.items() if key not in given}, short(word))


def as_dataset(found: object, options: Mapping[str, object], name: str) -> Dataset:
    """A Dataset as it is; a frame read as a file is; (inputs, labels) or (inputs, labels, owner) as the arrays of an .npz."""
    if isinstance(found, Dataset):
        return found
    reading = {key: value for key, value in options.items() if key in OPTIONS["file"] and key not in ("file", "folder")}
    if is_frame(found):
        return SETS["file"].loader(found, **reading)._replace(name=name)
    if not isinstance(found, tuple | list) or len(found) not in (2, 3):
        rule = f"gives a {type(found).__name__}"
        raise FedtierError(
            "data", name, rule, "a Dataset, a DataFrame, a dict of columns, (inputs, labels) or (inputs, labels, owner)"
        )
    arrays = {key: np.asarray(value) for key, value in zip(("inputs", "labels", "owner"), found, strict=False)}
    reading |= {"label": "labels", "owner": "owner" if "owner" in arrays else None}
    with tempfile.TemporaryDirectory() as folder:  # one way to read arrays, with all its checks
        file = Path(folder) / "arrays.npz"
        np.savez(file, allow_pickle=False, **arrays)
        return SETS["file"].loader(file, **reading)._replace(name=name)


def raw_dataset(arrays: Sequence[np.ndarray], name: str) -> Dataset:
    """Inputs, labels and owners as they are, for problems that predict nothing: numbers are not scaled, labels are numbers."""
    inputs, labels, owner = (*arrays, None)[:3]
    values, targets = as_inputs(f"{name}: inputs", inputs), np.asarray(labels, np.float32)
    rule = f"must be one number for each of the {len(values)} rows"
    require(targets.shape == (len(values),), f"{name}: labels", targets.shape, rule)
    codes, names = (None, ()) if owner is None else ordered(f"{name}: owner", as_words(unsettled("owner", owner)))
    require(codes is None or len(codes) == len(values), f"{name}: owner", f"{0 if codes is None else len(codes)} values", rule)
    groups = tenths_of(targets) if len(np.unique(targets)) > 1 else (np.zeros(len(values), np.int32), ("all",))
    return Dataset(name, values, targets, (), codes, names, task="regression", tenths=groups)
