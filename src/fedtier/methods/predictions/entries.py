"""The rows and the flat keys of the methods that compare predictions."""

from __future__ import annotations

from ...errors import choice, require
from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import FINER, SERVER, Parts, local, server_descent
from .codistil import codistil
from .disclosure import Disclosure
from .feddf import feddf
from .fedmd import fedmd


def codistil_keys(
    *,
    estimator: str = "auto",
    uplink: str = "auto",
    agreement: float = 1.0,
    guidance: float = 1.0,
    divergence: str = "kl",
    temperature: float = 1.0,
    smoothing: float = 0.1,
    directions: int = 1,
    public_rows: int = 200,
    public_labels: str = "server",
    decimals: int = 0,
    top: int = 0,
    noise: float = 0.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    server_lr: StepSize = "inverse_sqrt(0.01)",
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str = "sgd",
    averaging: int = 0,
    trust: float = 0.0,
) -> Parts:
    """uplink says what may leave a client: "predictions", "values" (two numbers for each direction), or "auto", as the
    estimator needs; estimator "auto" is first_order, and sphere where only values may leave."""
    choice("uplink", uplink, ("auto", "predictions", "values"))
    if estimator == "auto":
        estimator = "sphere" if uplink == "values" else "first_order"
    fits = uplink == "auto" or (uplink == "values") == (estimator == "sphere")
    sends = "values" if estimator == "sphere" else "predictions"
    require(fits, "uplink", uplink, f"the estimator {estimator} sends {sends}", "or leave the uplink out")
    return {
        "local": local(client_lr, batch),
        "server": server_descent(server_lr, server_batch, server_steps, server_step, averaging, trust),
        "learner": None,
        "estimator": estimator,
        "agreement": agreement,
        "guidance": guidance,
        "divergence": divergence,
        "temperature": temperature,
        "smoothing": smoothing,
        "directions": directions,
        "public_rows": public_rows,
        "public_labels": public_labels,
        "disclosure": Disclosure(decimals, top, noise),
    }


def fedmd_keys(
    *,
    divergence: str = "logits",
    public_rows: int = 200,
    public_labels: str = "shown",
    decimals: int = 0,
    top: int = 0,
    noise: float = 0.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
) -> Parts:
    return {
        "local": local(client_lr, batch),
        "learner": None,
        "divergence": divergence,
        "public_rows": public_rows,
        "public_labels": public_labels,
        "disclosure": Disclosure(decimals, top, noise),
    }


def feddf_keys(
    *,
    fusion: str = "models",
    public_rows: int = 200,
    weighting: str = "data",
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    server_lr: StepSize = 0.1,
    server_steps: int = 10,
    server_step: str = "sgd",
) -> Parts:
    return {
        "local": local(client_lr, batch),
        "server": server_descent(server_lr, 128, server_steps, server_step, 0, 0.0),
        "learner": None,
        "fusion": fusion,
        "public_rows": public_rows,
        "weighting": weighting,
    }


SIZES = [0.003, 0.01, 0.03, 0.1]
ENTRIES = {
    "codistil": Entry(
        codistil, codistil_keys, "co-distillation", "predictions",
        "two levels coupled by predictions on shared rows: clients may have models of any kind", bibtex.CODISTIL,
        recommended=SERVER | {"client_lr": 0.1},
        grid={"client_lr": SIZES, "agreement": [0.3, 1.0], "guidance": [0.3, 1.0]},
    ),
    "fedmd": Entry(
        fedmd, fedmd_keys, "FedMD", "predictions", "models of any kind reach a consensus on public rows; no global model",
        bibtex.FEDMD, recommended={"client_lr": 0.1}, grid={"client_lr": FINER},
    ),
    "feddf": Entry(
        feddf, feddf_keys, "FedDF", "predictions", "FedAvg whose average learns what the clients' models say of shared rows",
        bibtex.FEDDF, recommended={"client_lr": 0.1, "server_step": "adam", "server_lr": 0.001, "server_steps": 50},
        grid={"client_lr": SIZES, "server_lr": [0.0003, 0.001, 0.003, 0.01]},
    ),
}  # fmt: skip
