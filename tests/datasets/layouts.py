"""Small files in the publishers' layouts, written from arrays that the tests know."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
HOSPITALS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}


def idx_bytes(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def idx_arrays(train: int = 30, test: int = 10) -> list[np.ndarray]:
    draws = np.random.default_rng(0)
    return [
        part
        for rows in (train, test)
        for part in (draws.integers(0, 256, (rows, 28, 28), np.uint8), draws.integers(0, 10, rows, np.uint8))
    ]


def write_idx(folder: Path, packed: bool = True) -> list[np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = idx_arrays()
    for name, array in zip(IDX, arrays, strict=True):
        content = idx_bytes(array)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return arrays


def write_cifar(folder: Path, records: int) -> tuple[np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(1)
    labels, images = draws.integers(0, 10, (6, records), np.uint8), draws.integers(0, 256, (6, records, 3072), np.uint8)
    names = [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]
    for name, label, image in zip(names, labels, images, strict=True):
        (folder / f"{name}.bin").write_bytes(np.concatenate([label[:, None], image], axis=1).tobytes())
    return labels.reshape(-1), images.reshape(-1, 3, 32, 32)


def write_heart(folder: Path, lines: dict[str, list[str]] | None = None) -> None:
    """Every hospital at its real length; `lines` replaces the first lines of a hospital."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in HOSPITALS.items():
        written = [f"{40 + k % 30},{k % 2},{1 + k % 4},130,240,0,{k % 3},150,{k % 2},1.5,2,0,3,{k % 5}" for k in range(rows)]
        first = (lines or {}).get(name, [])
        (folder / f"processed.{name}.data").write_text("\n".join([*first, *written[len(first) :]]) + "\n")
