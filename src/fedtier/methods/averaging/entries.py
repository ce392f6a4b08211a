"""The rows and the flat keys of the averaging methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, TUNED, TUNING, Parts, Real, trained
from .agnostic import agnostic
from .fedavg import fedavg
from .feddyn import feddyn
from .fedexp import fedexp
from .fednova import fednova
from .fedopt import fedadagrad, fedadam, fedavgm, fedyogi
from .fedprox import fedprox
from .moon import moon
from .scaffold import scaffold


def fedavg_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    projection: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"weighting": weighting, "averaging": averaging, "projection": projection}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fedprox_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    projection: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"proximity": proximity, "weighting": weighting, "averaging": averaging, "projection": projection}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def scaffold_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    server_rate: Real = 1.0,
    weighting: str = "uniform",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"server_rate": server_rate, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fednova_keys(
    *,
    proximity: Real = 0.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"proximity": proximity, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fedavgm_keys(
    *,
    server_lr: StepSize = 1.0,
    server_momentum: float = 0.9,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"server_lr": server_lr, "server_momentum": server_momentum, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fedadagrad_keys(
    *,
    server_lr: StepSize = 0.1,
    server_momentum: float = 0.0,
    adaptivity: float = 1e-3,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"server_lr": server_lr, "server_momentum": server_momentum, "adaptivity": adaptivity, "weighting": weighting}
    return more | {"averaging": averaging} | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fedadam_keys(
    *,
    server_lr: StepSize = 0.1,
    server_momentum: float = 0.9,
    second_moment: float = 0.99,
    adaptivity: float = 1e-3,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"server_lr": server_lr, "server_momentum": server_momentum, "second_moment": second_moment}
    more |= {"adaptivity": adaptivity, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def fedexp_keys(
    *,
    epsilon: float = 1e-3,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"epsilon": epsilon, "weighting": weighting} | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def agnostic_keys(
    *,
    mixture_lr: float = 0.01,
    members: int = 1024,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"mixture_lr": mixture_lr, "members": members} | trained(client_lr, batch, fine_tune, momentum, weight_decay)


def feddyn_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"proximity": proximity, "averaging": averaging} | trained(client_lr, batch, fine_tune, momentum, weight_decay)


ADAPTIVE = {"client_lr": [0.01, 0.1], "server_lr": [0.003, 0.01, 0.03, 0.1], "fine_tune": TUNING}


def moon_keys(
    *,
    contrast: Real = 1.0,
    temperature: Real = 0.5,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"contrast": contrast, "temperature": temperature, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune)


ENTRIES = {
    "fedavg": Entry(
        fedavg, fedavg_keys, "FedAvg", "averaging", "average of local SGD", bibtex.FEDAVG,
        recommended=CLIENT | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedprox": Entry(
        fedprox, fedprox_keys, "FedProx", "averaging", "FedAvg with a pull towards the global model", bibtex.FEDPROX,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "proximity": [0.01, 0.1], "fine_tune": TUNING},
    ),
    "scaffold": Entry(
        scaffold, scaffold_keys, "SCAFFOLD", "averaging", "FedAvg with control variates against client drift", bibtex.SCAFFOLD,
        recommended=CLIENT | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fednova": Entry(
        fednova, fednova_keys, "FedNova", "averaging", "FedAvg of moves divided by how far each could go", bibtex.FEDNOVA,
        recommended=CLIENT | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedavgm": Entry(
        fedavgm, fedavgm_keys, "FedAvgM", "averaging", "FedAvg with momentum at the server", bibtex.FEDAVGM,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "server_lr": [0.3, 1.0], "fine_tune": TUNING},
    ),
    "fedadagrad": Entry(
        fedadagrad, fedadagrad_keys, "FedAdagrad", "averaging", "FedAvg with Adagrad at the server", bibtex.FEDOPT,
        recommended=CLIENT | TUNED, grid=ADAPTIVE,
    ),
    "fedadam": Entry(
        fedadam, fedadam_keys, "FedAdam", "averaging", "FedAvg with Adam at the server", bibtex.FEDOPT,
        recommended=CLIENT | TUNED, grid=ADAPTIVE,
    ),
    "fedyogi": Entry(
        fedyogi, fedadam_keys, "FedYogi", "averaging", "FedAvg with Yogi at the server", bibtex.FEDOPT,
        recommended=CLIENT | TUNED, grid=ADAPTIVE,
    ),
    "fedexp": Entry(
        fedexp, fedexp_keys, "FedExP", "averaging", "FedAvg whose server goes further where moves differ", bibtex.FEDEXP,
        recommended={"client_lr": 0.1} | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "agnostic": Entry(
        agnostic, agnostic_keys, "Agnostic FL", "averaging", "one model for the worst mixture of clients", bibtex.AGNOSTIC,
        recommended={"client_lr": 0.1} | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "feddyn": Entry(
        feddyn, feddyn_keys, "FedDyn", "averaging", "FedProx that learns each client's drift", bibtex.FEDDYN,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "proximity": [0.01, 0.1], "fine_tune": TUNING},
    ),
    "moon": Entry(
        moon, moon_keys, "MOON", "averaging", "FedAvg whose features are drawn to the global model's, for nets", bibtex.MOON,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "contrast": [0.1, 1.0], "fine_tune": TUNING},
    ),
}  # fmt: skip
