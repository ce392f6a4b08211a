"""Fed-Heart-Disease: the heart-disease set as FLamby cuts, scales and splits it, row by row.

Ogier du Terrail et al., "FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic Healthcare Settings",
NeurIPS 2022 (datasets and benchmarks), https://arxiv.org/abs/2210.04620

Columns slope, ca and thal are left out, then every patient with a gap: 740 remain. cp and restecg become 0/1 columns without
their first value: 13 inputs. Each hospital's patients are divided by scikit-learn's stratified split (two thirds to train on,
random state 43), the same in every run. Inputs are (x - mean) / (deviation + 1e-9), mean and deviation (n - 1) of the
training rows of the hospital. What judges the global model on all hospitals together, and what a pooled training sees, is
scaled by the training rows of all of them instead: these patients stand in the set a second time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import FedtierError, choice
from .dataset import Dataset, Split
from .heart import COLUMNS, HEART, ROWS, read_hospital
from .sources import locate

LEFT_OUT = ("slope", "ca", "thal")
CODES = {"cp": (2, 3, 4), "restecg": (1, 2)}  # the first value of each has no column
TRAIN_SHARE, RANDOM_STATE = 0.66, 43
POOLED = "all"


def fed_heart_disease(folder: str | Path | None = None, server_copy: str | None = None) -> Dataset:
    """740 patients of four hospitals, disease or not, split as published. `server_copy` gives the server a copy of one
    hospital's training rows, or with "all" of everybody's, scaled together: for training in one place."""
    if server_copy is not None:
        choice("server_copy", server_copy, (POOLED, *ROWS))
    paths = locate(HEART, folder)
    parts = [_complete(read_hospital(path, rows)) for path, rows in zip(paths.values(), ROWS.values(), strict=True)]
    labels = [(part["num"] > 0).astype(np.int32) for part in parts]
    inputs = [_inputs(part) for part in parts]
    train, held = zip(*(_divided(name, one) for name, one in zip(ROWS, labels, strict=True)), strict=True)
    scaled = [_scaled(rows, rows[mine]) for rows, mine in zip(inputs, train, strict=True)]
    start = np.concatenate([[0], np.cumsum([len(one) for one in labels])])
    train, held = ([rows + first for rows, first in zip(some, start[:-1], strict=True)] for some in (train, held))
    everyone, total = np.concatenate(inputs), int(start[-1])
    together = _scaled(everyone, everyone[np.concatenate(train)])
    server = {POOLED: np.concatenate(train) + total} | dict(zip(ROWS, train, strict=True))
    return Dataset(
        "fed-heart-disease", np.concatenate([*scaled, together]), np.concatenate([*labels, *labels]), ("healthy", "disease"),
        owner=np.tile(np.repeat(np.arange(len(ROWS), dtype=np.int32), np.diff(start)), 2), owner_names=tuple(ROWS),
        label="num", columns=_names(),
        split=Split(
            test=np.concatenate(held) + total, server=np.zeros(0, int) if server_copy is None else server[server_copy],
            train=tuple(train), held=tuple(held),
        ),
        notes=(f"{total} patients, each twice: scaled by the training rows of the hospital, and by those of all",),
    )  # fmt: skip


def _complete(values: np.ndarray) -> dict[str, np.ndarray]:
    """The columns that are used, of the patients who have all of them."""
    columns = {name: column for name, column in zip(COLUMNS, values.T, strict=True) if name not in LEFT_OUT}
    whole = ~np.isnan(np.stack([*columns.values()])).any(axis=0)
    return {name: column[whole] for name, column in columns.items()}


def _inputs(part: dict[str, np.ndarray]) -> np.ndarray:
    """[N, 13] float32, unscaled: numbers in the order of the file, then the 0/1 columns."""
    numbers = [column for name, column in part.items() if name not in (*CODES, "num")]
    flags = [part[name] == code for name, codes in CODES.items() for code in codes]
    return np.stack([*numbers, *flags], axis=1).astype(np.float32)


def _names() -> tuple[str, ...]:
    numbers = [name for name in COLUMNS if name not in (*LEFT_OUT, *CODES, "num")]
    return (*numbers, *(f"{name} = {code}" for name, codes in CODES.items() for code in codes))


def _divided(name: str, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows to train on, rows held back) of one hospital, each ascending."""
    from sklearn.model_selection import train_test_split

    few = [int((labels == label).sum()) for label in np.unique(labels)]
    try:
        parts = train_test_split(
            np.arange(len(labels)), test_size=1 - TRAIN_SHARE, train_size=TRAIN_SHARE, random_state=RANDOM_STATE, shuffle=True,
            stratify=labels if len(few) > 1 and min(few) > 2 else None,
        )  # fmt: skip
    except ValueError as error:
        raise FedtierError(name, f"{len(labels)} complete rows", f"cannot be split: {error}", "is the file whole?") from None
    return np.sort(parts[0]), np.sort(parts[1])


def _scaled(rows: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    return (rows - fitted.mean(axis=0)) / (fitted.std(axis=0, ddof=1) + np.float32(1e-9))
