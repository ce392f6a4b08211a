"""The rows and the flat keys of the personalised methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex, personal
from ..entry import Entry
from ..flat import CLIENT, FINER, SIZES, TUNED, TUNING, Parts, Real, local, personal_rule
from .apfl import apfl
from .ditto import ditto
from .fedmac import fedmac
from .knn_per import knn_per
from .mocha import mocha
from .partial import fedbn, fedper, fedrep, lg_fedavg
from .per_fedavg import per_fedavg
from .pfedme import pfedme

BY_ROWS = {"weighting": "data"}
"""Authors of personal methods count clients alike; a comparison of defaults counts them by their rows for all methods."""
OUTER = {"proximity": 1.0, "outer_lr": 0.1}
"""For envelopes on a few dozens of rounds: with the published 15 and 0.005 the global model hardly moves."""


def ditto_keys(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    solver = local(client_lr, batch, momentum=momentum, weight_decay=weight_decay)
    return {"proximity": proximity, "weighting": weighting, "averaging": averaging, "local": solver}


def apfl_keys(
    *,
    mixing: float = 0.5,
    mixing_rate: Real = 1.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "uniform",
    averaging: int = 0,
) -> Parts:
    more = {"mixing": mixing, "mixing_rate": mixing_rate, "weighting": weighting, "averaging": averaging}
    return more | {"local": local(client_lr, batch)}


def pfedme_keys(
    *,
    proximity: Real = 15.0,
    inner_steps: int = 5,
    outer_lr: Real = 0.005,
    server_rate: Real = 1.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "uniform",
    averaging: int = 0,
) -> Parts:
    inner = {"proximity": proximity, "inner_steps": inner_steps, "outer_lr": outer_lr, "local": local(client_lr, batch)}
    return inner | {"server_rate": server_rate, "weighting": weighting, "averaging": averaging}


def per_fedavg_keys(
    *,
    first_order: bool = False,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "uniform",
    averaging: int = 0,
    fine_tune: StepSize = 0.01,
) -> Parts:
    rule = personal_rule(fine_tune, batch, personal.global_model())
    more = {"first_order": first_order, "weighting": weighting, "averaging": averaging}
    return more | {"local": local(client_lr, batch), "personal": rule}


def fedper_keys(
    *,
    kept: str = "head",
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"kept": kept, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def fedrep_keys(
    *,
    kept: str = "head",
    kept_steps: int = 10,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    more = {"kept": kept, "kept_steps": kept_steps, "weighting": weighting, "averaging": averaging}
    return more | {"local": local(client_lr, batch)}


def fedbn_keys(
    *,
    kept: str = "norm",
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"kept": kept, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def lg_fedavg_keys(
    *,
    kept: str = "body",
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"kept": kept, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def fedmac_keys(
    *,
    proximity: Real = 1.0,
    sparsity: Real = 0.001,
    shared_sparsity: Real = 0.001,
    width: float = 0.01,
    ridge: Real = 0.0,
    inner_steps: int = 5,
    outer_lr: Real = 0.1,
    server_rate: Real = 1.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "uniform",
    averaging: int = 0,
) -> Parts:
    loop = {"inner_steps": inner_steps, "outer_lr": outer_lr, "server_rate": server_rate, "local": local(client_lr, batch)}
    more = {"sparsity": sparsity, "shared_sparsity": shared_sparsity, "width": width, "ridge": ridge, "proximity": proximity}
    return loop | more | {"weighting": weighting, "averaging": averaging}


def knn_per_keys(
    *,
    neighbours: int = 10,
    stored: int = 1000,
    distance_scale: Real = 1.0,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    more = {"neighbours": neighbours, "stored": stored, "distance_scale": distance_scale}
    return more | {"weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def mocha_keys(
    *,
    loss: str = "auto",
    ridge: Real = 0.01,
    relate_every: int = 10,
    shrinkage: float = 0.1,
    members: int = 100,
    stored: int = 1000,
    batch: int = 32,
) -> Parts:
    relations = {"relate_every": relate_every, "shrinkage": shrinkage, "members": members}
    return relations | {"loss": loss, "ridge": ridge, "stored": stored, "batch": batch}


ENTRIES = {
    "ditto": Entry(
        ditto, ditto_keys, "Ditto", "personal", "FedAvg, and a personal model beside it that is pulled towards the global one",
        bibtex.DITTO, recommended=CLIENT, grid={"client_lr": SIZES, "proximity": [0.03, 0.3]},
    ),
    "apfl": Entry(
        apfl, apfl_keys, "APFL", "personal", "a mixture of the global model and one's own, with a weight that is learnt",
        bibtex.APFL, recommended=CLIENT | BY_ROWS, grid={"client_lr": FINER},
    ),
    "pfedme": Entry(
        pfedme, pfedme_keys, "pFedMe", "personal", "personal models near a global one that minimises their Moreau envelopes",
        bibtex.PFEDME, recommended=CLIENT | BY_ROWS | OUTER,
        grid={"client_lr": [0.003, 0.01, 0.03, 0.1], "proximity": [1.0, 5.0], "server_rate": [1.0, 2.0]},
    ),
    "per_fedavg": Entry(
        per_fedavg, per_fedavg_keys, "Per-FedAvg", "personal", "a global model from which a step leads to a good personal one",
        bibtex.PER_FEDAVG, recommended=CLIENT | BY_ROWS | TUNED, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedper": Entry(
        fedper, fedper_keys, "FedPer", "personal", "FedAvg of all but the last layer, which every client has of its own",
        bibtex.FEDPER, recommended=CLIENT, grid={"client_lr": FINER},
    ),
    "fedrep": Entry(
        fedrep, fedrep_keys, "FedRep", "personal", "a last layer of one's own, trained first, then the shared rest",
        bibtex.FEDREP, recommended=CLIENT, grid={"client_lr": FINER},
    ),
    "fedbn": Entry(
        fedbn, fedbn_keys, "FedBN", "personal", "FedAvg of all but the normalisation layers, which stay at the clients",
        bibtex.FEDBN, recommended=CLIENT, grid={"client_lr": FINER},
    ),
    "lg_fedavg": Entry(
        lg_fedavg, lg_fedavg_keys, "LG-FedAvg", "personal", "a representation of one's own under a shared last layer",
        bibtex.LG_FEDAVG, recommended=CLIENT, grid={"client_lr": FINER},
    ),
    "fedmac": Entry(
        fedmac, fedmac_keys, "FedMac", "personal", "sparse personal models in correlation with a sparse global one",
        bibtex.FEDMAC, recommended=CLIENT | BY_ROWS | {"ridge": 1.0},
        grid={"client_lr": [0.003, 0.01, 0.03, 0.1], "proximity": [0.5, 1.0], "server_rate": [1.0, 2.0]},
    ),
    "knn_per": Entry(
        knn_per, knn_per_keys, "kNN-Per", "personal", "FedAvg, and each client's own rows beside it as a memory, for nets",
        bibtex.KNN_PER, recommended=CLIENT, grid={"client_lr": SIZES, "distance_scale": [0.3, 1.0]},
    ),
    "mocha": Entry(
        mocha, mocha_keys, "MOCHA", "personal", "linear models of one's own, with a matrix of who is like whom that is learnt",
        bibtex.MOCHA, linear=True,
        grid={"ridge": [float(f"{step}e-{place}") for place in (5, 4, 3, 2, 1) for step in (1, 2, 5)] + [1.0]},
    ),
}  # fmt: skip
