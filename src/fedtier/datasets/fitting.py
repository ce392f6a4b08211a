"""Fitting a preparation: what scikit-learn finds in the training rows of a table, and nothing in any other row."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import require
from .preparation import Category, Label, Number, Preparation, Scaling
from .table import Table, Words

Fill = Literal["median", "mean", "zero"]
RAREST = 10  # rows that a category needs for a column of its own, or a hundredth of all rows if that is less
CHUNK = 1 << 22  # numbers looked at in one go, so that a mean costs no second copy of the data


def fit(
    table: Table, rows: np.ndarray, label: Label, *, fill: Fill = "median", most: int = 100
) -> tuple[Preparation, list[str]]:
    """The preparation, and in words what was left out. `most`: columns that a category gets at most, one for the rest
    included."""
    plain = {name: column[rows] for name, column in table.columns.items() if not isinstance(column, Words)}
    notes: list[str] = []
    numbers = _fit_numbers([*plain], np.column_stack([*plain.values()]), fill, notes) if plain else []
    categories = [
        found
        for name, column in table.columns.items()
        if isinstance(column, Words) and (found := _fit_category(name, column, rows, most, notes)) is not None
    ]
    rule = "has no column that varies in the training rows"
    require(bool(numbers or categories), "data", "the table", rule, "; ".join(notes))
    return Preparation(label, tuple(numbers), tuple(categories)), notes


def _fit_numbers(names: list[str], values: np.ndarray, fill: Fill, notes: list[str]) -> list[Number]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    empty = np.isnan(values)
    with np.errstate(invalid="ignore"):
        spread = np.fmax.reduce(values, axis=0) - np.fmin.reduce(values, axis=0)
    gone, same = np.all(empty, axis=0).tolist(), ((spread == 0) & ~np.any(empty, axis=0)).tolist()
    _note(notes, "no value in the training rows", [name for name, one in zip(names, gone, strict=True) if one])
    _note(notes, "the same value in all training rows", [name for name, one in zip(names, same, strict=True) if one])
    kept = np.flatnonzero(~np.asarray(gone) & ~np.asarray(same))
    if not len(kept):
        return []
    strategy, constant = ("constant", 0.0) if fill == "zero" else (fill, None)
    imputer = SimpleImputer(strategy=strategy, fill_value=constant).fit(values[:, kept])
    scaler = StandardScaler().fit(imputer.transform(values[:, kept]))
    flags = empty[:, kept].any(axis=0)
    found = zip([names[k] for k in kept], imputer.statistics_, scaler.mean_, scaler.scale_, flags, strict=True)  # pyright: ignore
    return [Number(name, float(m), float(mean), 1.0 / float(dev), bool(flag)) for name, m, mean, dev, flag in found]


def _fit_category(name: str, column: Words, rows: np.ndarray, most: int, notes: list[str]) -> Category | None:
    from sklearn.preprocessing import OneHotEncoder

    codes = column.codes[rows]
    gone = bool((codes < 0).any())
    known = codes[codes >= 0]
    if not len(known):
        _note(notes, "no value in the training rows", [name])
        return None
    least = int(np.clip(len(rows) // 100, 1, RAREST))
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=least, max_categories=most).fit(known[:, None])
    rare = encoder.infrequent_categories_[0]
    rare = np.asarray([] if rare is None else rare)
    kept = [code for code in encoder.categories_[0] if code not in rare]
    if len(kept) + bool(len(rare)) + gone < 2 or not kept:
        why = "the same value in all training rows" if kept else f"no category that {least} training rows share"
        _note(notes, why, [name])
        return None
    levels = sorted(column.levels[code] for code in kept)
    return Category(name, tuple(levels), bool(len(rare)), gone)


def _note(notes: list[str], why: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.append(f"left out ({why}): {', '.join(names[:5])}{more}")


def fit_scaling(inputs: np.ndarray, rows: np.ndarray, label: Label) -> Preparation:
    """Mean 0 and deviation 1 over these rows of an array, per channel where rows are images."""
    return Preparation(label, scaling=Scaling(inputs.shape[1:], *standardisation(inputs[rows])))


def fit_label(name: str, labels: np.ndarray, classes: tuple[str, ...], rows: np.ndarray) -> Label:
    """The label as the training rows have it: its classes, or its mean and deviation."""
    if classes:
        return Label(name, classes)
    known = np.asarray(labels[rows], np.float64)
    deviation = float(known.std())
    require(deviation > 0, f"label {name}", float(known[0]), "is the same in all training rows", "there is nothing to predict")
    return Label(name, (), float(known.mean()), 1.0 / deviation)


def standardisation(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(shift, scale) that give mean 0 and variance 1: per channel for images, per column for rows of numbers.

    A constant column gets scale 1.
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
