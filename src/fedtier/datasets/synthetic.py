"""Data made on the spot: Gaussian classes for any number of clients, and rows for the two-level quadratic."""

from __future__ import annotations

import numpy as np

from ..errors import not_negative, whole
from .dataset import Dataset


def synthetic(
    *, clients: int = 10, rows: int = 20, features: int = 16, classes: int = 10, spread: float = 0.5, seed: int = 0
) -> Dataset:
    """Gaussian classes: input = class mean + the client's own shift + unit noise; `rows` rows per client.

    Class means are standard normal, shifts are normal with deviation `spread` (0 = all clients alike). One pass, no loop
    over clients: a million clients with 4 rows of 16 features take 0.3 GiB and a few seconds.
    """
    whole("classes", classes, 2)
    draws, inputs = _blocks(clients, rows, features, spread, seed)
    labels = draws.integers(0, classes, size=(clients, rows), dtype=np.int32)
    means = draws.standard_normal((classes, features), dtype=np.float32)
    for start in range(0, clients, 4096):  # the gathered means are as large as the inputs themselves
        inputs[start : start + 4096] += means[labels[start : start + 4096]]
    names = tuple(str(k) for k in range(classes))
    return Dataset("synthetic", inputs.reshape(-1, features), labels.reshape(-1), names, owner=_owners(clients, rows))


def quadratic(*, clients: int = 10, rows: int = 20, features: int = 16, spread: float = 1.0, seed: int = 0) -> Dataset:
    """Rows b ~ b_i + unit noise for `problem.closed_forms`, with b_i normal of deviation `spread` around 0.

    There is nothing to classify: every label is 0 and `classes` is 1. The optimum of what is then solved follows from
    the *sample* means of the rows after the split (`ClosedForm(a=server rows' mean, b=clients' means, ...)`), so it is
    exact for the finite data. The problem's spec also needs `curvatures`.
    """
    _, inputs = _blocks(clients, rows, features, spread, seed)
    labels = np.zeros(clients * rows, np.int32)
    owner = _owners(clients, rows)
    return Dataset("quadratic", inputs.reshape(-1, features), labels, ("0",), owner=owner, task="two_level")


def curvatures(clients: int, features: int, ratio: float = 4.0, seed: int = 0) -> np.ndarray:
    """q_i [clients, features] of the two-level quadratic: log-uniform between 1/sqrt(ratio) and sqrt(ratio)."""
    whole("clients", clients)
    whole("features", features)
    not_negative("ratio", ratio - 1, "the ratio of the largest to the smallest curvature is at least 1")
    exponents = np.random.default_rng([seed, 1]).uniform(-0.5, 0.5, size=(clients, features))
    return (ratio**exponents).astype(np.float32)


def _blocks(clients: int, rows: int, features: int, spread: float, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """Unit noise around each client's own centre: [clients, rows, features]."""
    whole("clients", clients)
    whole("rows", rows)
    whole("features", features)
    not_negative("spread", spread)
    whole("seed", seed, 0)
    draws = np.random.default_rng([seed, 0])
    centres = draws.standard_normal((clients, 1, features), dtype=np.float32)
    inputs = draws.standard_normal((clients, rows, features), dtype=np.float32)
    inputs += np.float32(spread) * centres
    return draws, inputs


def _owners(clients: int, rows: int) -> np.ndarray:
    return np.repeat(np.arange(clients, dtype=np.int32), rows)
