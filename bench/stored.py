"""The stored task as every contestant reads it, and the clock they all carry. NumPy only.

A task is a folder: rows.npz (uint8 inputs, labels, scaling), partition.npz (who has which rows, which clients take part
in which round with how many steps) and x0.npz (the first model).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from workloads import Workload, workload

DATA = Path(__file__).parent / ".data"


class Task(NamedTuple):
    work: Workload
    inputs: np.ndarray  # [N, ...] float32, standardised
    labels: np.ndarray  # [N] int64
    index: np.ndarray  # [N] test | server | client 0 | client 1 | ...
    test: np.ndarray  # rows of the test
    server: np.ndarray  # rows of the server
    start: np.ndarray  # [m] first position of each client in `index`
    size: np.ndarray  # [m] its number of rows
    ids: np.ndarray  # [R, S]
    steps: np.ndarray  # [R, S]
    x0: dict[str, np.ndarray]

    def rows(self, client: int) -> np.ndarray:
        return self.index[self.start[client] : self.start[client] + self.size[client]]

    def accuracy(self, predict: Callable[[np.ndarray], np.ndarray], block: int = 1000) -> float:
        """The share of test rows whose label `predict(inputs)` finds."""
        found = [
            np.sum(predict(self.inputs[r]) == self.labels[r]) for r in np.array_split(self.test, len(self.test) // block + 1)
        ]
        return float(sum(found)) / len(self.test)


def load(folder: Path, work: Workload) -> Task:
    rows, part, x0 = (np.load(folder / f"{name}.npz") for name in ("rows", "partition", "x0"))
    inputs = np.subtract(rows["inputs"], rows["shift"], dtype=np.float32)
    inputs *= rows["scale"]
    index = part["index"].astype(np.int64)
    test, server = (index[part[name][0] : part[name].sum()] for name in ("test", "server"))
    return Task(
        work, inputs, rows["labels"].astype(np.int64), index, test, server,
        part["start"], part["size"], part["ids"], part["steps"], dict(x0),
    )  # fmt: skip


def task() -> Task:
    """The task that `run.py` has set for this process."""
    work = workload(os.environ["BENCH_WORKLOAD"])
    return load(DATA / work.name, work)


class Clock:
    """Seconds since `run.py` started the process (the monotonic clock is the machine's), round by round."""

    def __init__(self) -> None:
        self.start = float(os.environ["BENCH_START"])
        self.marks: list[tuple[int, float]] = []

    def lap(self, rounds: int) -> None:
        """`rounds` rounds are done, their results in memory."""
        self.marks.append((rounds, time.monotonic() - self.start))


def finish(clock: Clock, accuracy: float, *packages: str, **words: Any) -> None:
    """Hands the measurements to `run.py`."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    line = {"marks": clock.marks, "accuracy": accuracy, "versions": versions, **words}
    Path(os.environ["BENCH_OUT"]).write_text(json.dumps(line), encoding="utf-8")
