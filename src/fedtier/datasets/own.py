"""The user's own data: a table in a file or in memory, an `.npz` of arrays, or a folder of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import FedtierError, choice, nearest, require
from .content import Choose, Content, Spelling, read
from .dataset import Dataset, Raw, tenths_of
from .labels import DROP, NO_TEXTS, ordered, target, told
from .sources import chosen_folder
from .table import Column, Table, Words, as_words, missing, refuse_either, take

DECIMALS = ("auto", ",", ".")
FILLS = ("median", "mean", "zero", "drop", "refuse")
PIXEL_SHIFT, PIXEL_SCALE = np.float32(127.5), np.float32(1 / 127.5)  # bytes from 0 to 255 become numbers from -1 to 1


def from_file(
    file: object = None,
    *,
    folder: str | Path | None = None,
    label: str = "label",
    owner: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: str = "median",
    max_categories: int = 100,
    task: str = "auto",
    header: bool = True,
    image_size: int | None = None,
    decimal: str = "auto",
    missing_words: Sequence[str] | None = None,
) -> Dataset:
    """The data set in `file`: a path (a relative one is looked for here first, then in the data folder), or a DataFrame of
    pandas or polars, an Arrow table, a dict of arrays.

    label, owner, weight   names of these columns; every other column is a feature
    drop, keep             features to leave out, or the only ones to take
    categories             columns of numbers that are mere codes
    missing                what becomes of a missing number: "median" or "mean" of the training rows, "zero" (all with a 0/1
                           column that says so); "drop" the row; "refuse"
    task                   "classification", "binary", "regression"; "auto" goes by the label (see `labels.target`)
    decimal                what stands before decimals, "," or ".", where a column of numbers such as 1,234 may be read both
                           ways; "auto" goes by the rest of the table, and refuses the column where that does not say
    missing_words          texts that stand for a missing label or owner, besides the empty cell; None: NA, none, ? and the like
    header                 False: the file's first line is a row; columns are then called "column 1", "column 2", ...

    Nothing is fitted yet: the set has no inputs until `Dataset.prepared` is told which rows are training rows.
    """
    choice("missing", missing, FILLS)
    choice("decimal", decimal, DECIMALS)
    require(not (drop and keep), "keep", list(keep), "cannot stand beside drop", "name one of the two")
    source = _path(file, folder) if isinstance(file, str | Path | None) else file
    choose = Choose(drop, keep, categories)
    spelling = Spelling("" if decimal == "auto" else decimal, missing_words)
    found = read(
        source, label=label, owner=owner, weight=weight, choose=choose, header=header, image_size=image_size, spelling=spelling
    )
    gone = [found.gone.get(name, NO_TEXTS) for name in (label, owner or "owner")]
    found, notes = _whole_rows(found, missing)
    aim = target(label, found.label, task, decimal=found.decimal, gone=gone[0])
    name = Path(file).name.partition(".")[0] if isinstance(file, str | Path) else "table"
    codes, owner_names = (None, ()) if found.owner is None else ordered(f"owner {owner}", as_words(found.owner), gone[1])
    numeric = not aim.classes
    dataset = Dataset(
        name, np.empty((len(aim.values), 0), np.float32), aim.values, aim.classes, codes, owner_names,
        task="regression" if numeric else "classification", weights=_weights(weight, found.weight), label=label,
        tenths=tenths_of(aim.values) if numeric else None, notes=(*found.notes, *notes, f"label {label}: {aim.why}"),
        decimal=found.decimal,
    )  # fmt: skip
    if isinstance(found.rows, np.ndarray) and found.rows.dtype == np.uint8:
        return dataset._replace(inputs=found.rows, shift=PIXEL_SHIFT, scale=PIXEL_SCALE)
    fill = missing if missing in ("median", "mean", "zero") else "median"
    return dataset._replace(raw=Raw(found.rows, fill, max_categories))


def _whole_rows(found: Content, rule: str) -> tuple[Content, list[str]]:
    """The rows that may stay under the rule for missing values."""
    features = [*found.rows.columns.items()] if isinstance(found.rows, Table) else []
    if rule == "refuse":
        for name, column in features:
            gone = missing(column)
            if gone.any():
                where = f"is missing in {int(gone.sum())} rows, first in row {int(np.argmax(gone))} (rows count from 0)"
                raise FedtierError(f"column {name}", NOTHING_THERE, where, 'missing = "median" fills it in')
    if rule != "drop":
        return found, []
    special = [column for column in (found.label, found.owner, found.weight) if column is not None]
    gone = np.any([missing(column) for column in (*special, *(column for _, column in features))], axis=0)
    if not gone.any():
        return found, []
    require(not gone.all(), "missing", rule, "every row lacks some value", 'use "median", or leave columns out: drop')
    kept = np.flatnonzero(~gone)
    owner, weight = (None if column is None else take(column, kept) for column in (found.owner, found.weight))
    rows = found.rows.take(kept) if isinstance(found.rows, Table) else found.rows[kept]
    texts = [f"{name}: {told(counts)}" for name, counts in found.gone.items() if counts]
    notes = [
        f"{int(gone.sum())} rows with missing values are left out" + f" (taken for missing: {'; '.join(texts)})" * bool(texts)
    ]
    return found._replace(rows=rows, label=take(found.label, kept), owner=owner, weight=weight), notes


NOTHING_THERE = "no value"


def _weights(name: str | None, column: Column | None) -> np.ndarray | None:
    if column is None:
        return None
    refuse_either(str(name), column)
    require(not isinstance(column, Words), "weight", name, "holds words, not numbers")
    values = np.asarray(column, np.float64)
    bad = ~np.isfinite(values) | (values < 0)
    rule = f"must be finite and at least 0, but is not in row {int(np.argmax(bad))} (rows count from 0)"
    require(not bad.any(), "weight", name, rule, DROP)
    require(values.sum() > 0, "weight", name, "is 0 in all rows")
    return values


def _path(file: str | Path | None, folder: str | Path | None) -> Path:
    if file is None:
        raise FedtierError("file", None, "must be given", "a table, an .npz or a folder of images")
    _, root = chosen_folder(folder)
    here = Path(file).expanduser()
    places = [here] if root is None or here.is_absolute() else [here, root / here]
    for place in places:
        if place.exists():
            return place
    looked = " and ".join(str(place.absolute()) for place in places)
    raise FedtierError("file", str(file), f"is not there (looked for {looked})", _siblings(here))


def _siblings(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    close = nearest(path.name, [entry.name for entry in folder.iterdir()])
    return close if close.startswith("did") else "give the path from the current folder, or an absolute one"
