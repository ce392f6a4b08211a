"""The five workloads, as numbers. Standard library only, so that every environment can read them.

All contestants take constant client steps (the paper's decaying ones for zo_hfl), batches of 32 and the cohorts of the
stored plan; clients hold 63 % of the rows, the server 27 %, the test 10 %, as in the paper.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple


class Workload(NamedTuple):
    name: str
    title: str
    data: str  # a data set of fedtier
    model: str  # softmax or cnn
    method: str  # fedavg, scaffold or zo_hfl
    clients: int  # m
    cohort: int  # S
    alpha: float  # Dirichlet
    steps: int | None  # H, or None: ceil(tau sqrt(r + 1))
    rounds: int  # R
    warm: int  # rounds before the clock of the steady state starts
    lr: float  # of a client; zo_hfl: c of c/(t + 1)
    band: float  # largest difference of the test accuracy from fedtier's, as a share
    batch: int = 32
    tau: float = 20.0
    seed: int = 0


class ZoHfl(NamedTuple):
    """The paper's constants; lambda and mu, which it does not give, are fedtier's defaults."""

    smoothing: float = 0.1  # eta
    server_lr: float = 0.01  # gamma_r = c/sqrt(r + 1)
    server_batch: int = 128
    penalty: float = 1.0  # lambda
    proximity: float = 0.1  # mu


ZO_HFL = ZoHfl()

_W1 = Workload(
    "W1", "MNIST, softmax regression, FedAvg: 10 clients, cohort 5, 100 steps",
    "mnist", "softmax", "fedavg", clients=10, cohort=5, alpha=0.1, steps=100, rounds=30, warm=5, lr=0.01, band=0.02,
)  # fmt: skip
_W2 = _W1._replace(
    name="W2", title="MNIST, softmax regression, FedAvg: 1,000 clients, cohort 100, 20 steps",
    clients=1000, cohort=100, alpha=1.0, steps=20, rounds=6, warm=1,
)  # fmt: skip
_W3 = _W1._replace(name="W3", title="MNIST, softmax regression, SCAFFOLD: 10 clients, cohort 5, 100 steps", method="scaffold")
_W4 = _W1._replace(
    name="W4", title="MNIST, softmax regression, ZO-HFL as in the paper: 10 clients, beta 50 %, tau 20",
    method="zo_hfl", alpha=1.0, steps=None, rounds=100, warm=10, lr=0.1, band=0.03,
)  # fmt: skip
_W5 = _W1._replace(
    name="W5", title="CIFAR-10, small CNN, FedAvg: 100 clients, cohort 10, 20 steps",
    data="cifar10", model="cnn", clients=100, cohort=10, alpha=1.0, steps=20, rounds=6, warm=1, lr=0.05, band=0.05,
)  # fmt: skip

WORKLOADS = {w.name: w for w in (_W1, _W2, _W3, _W4, _W5)}


def workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise ValueError(refusal("--workload", name, WORKLOADS))
    return WORKLOADS[name]


def refusal(option: str, value: str, known: object) -> str:
    """The message for an unknown word: the closest known one, or all of them."""
    names = sorted(known)  # type: ignore[call-overload]
    close = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
    return f"{option} = {value!r}: is not known\n  hint: {hint}"
