"""Heart disease at four hospitals (UCI; A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, 1988): natural clients.

920 patients, 13 measurements each, of which hospitals other than Cleveland took only some. The label is 1 when
num > 0 (any disease). '?' is missing, and so is a resting blood pressure or a cholesterol of 0, which no patient has (all of
Switzerland's cholesterol is 0). cp, restecg, slope and thal are categories; the rest, yes/no answers among them, are
numbers. What becomes of both is the preparation's business, as for any table.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import FedtierError
from .dataset import Dataset, Raw
from .formats import REPLACE
from .published import Published
from .sources import locate
from .table import Column, Table, as_words

ROWS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
HEART = Published(
    "heart-disease",
    {
        "processed.cleveland.data": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        "processed.hungarian.data": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
        "processed.switzerland.data": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
        "processed.va.data": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
    },
    ("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",),
)
COLUMNS: tuple[str, ...] = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal", "num",
)  # fmt: skip
CATEGORIES = ("cp", "restecg", "slope", "thal")
NEVER_ZERO = ("trestbps", "chol")


def heart_disease(folder: str | Path | None = None) -> Dataset:
    """920 patients of four hospitals, disease or not."""
    paths = locate(HEART, folder)
    parts = [read_hospital(path, rows) for path, rows in zip(paths.values(), ROWS.values(), strict=True)]
    values = dict(zip(COLUMNS, np.concatenate(parts).T, strict=True))
    disease = (values.pop("num") > 0).astype(np.int32)
    for name in NEVER_ZERO:
        values[name][values[name] == 0] = np.nan
    columns: dict[str, Column] = {name: as_words(v) if name in CATEGORIES else v for name, v in values.items()}
    return Dataset(
        "heart-disease", np.empty((len(disease), 0), np.float32), disease, ("healthy", "disease"),
        owner=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
        owner_names=tuple(ROWS), label="num", raw=Raw(Table(columns, len(disease))),
    )  # fmt: skip


def read_hospital(path: Path, rows: int) -> np.ndarray:
    """[rows, 14] of one hospital's file, '?' as NaN."""
    lines = path.read_text(encoding="ascii", errors="replace").split()
    table = []
    for number, line in enumerate(lines, start=1):
        try:
            values = [np.nan if cell == "?" else float(cell) for cell in line.split(",")]
        except ValueError:
            raise FedtierError(str(path), line, f"line {number} must hold numbers or '?'", REPLACE) from None
        known = len(values) == len(COLUMNS) and not np.isnan(values[-1])
        if not known:
            raise FedtierError(str(path), line, f"line {number} must hold {len(COLUMNS)} values, the last one known", REPLACE)
        table.append(values)
    if len(table) != rows:
        rule = f"is {'cut short' if len(table) < rows else 'too long'}: {rows} lines expected"
        raise FedtierError(str(path), f"{len(table)} lines", rule, REPLACE)
    return np.array(table)
