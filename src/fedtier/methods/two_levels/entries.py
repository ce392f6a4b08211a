"""The rows and the flat keys of the methods with two levels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...errors import choice, require
from ...schedules import StepSize
from .. import bibtex, personal
from ..entry import Entry
from ..flat import SERVER, TUNED, TUNING, Parts, Real, local, personal_rule, server_descent
from . import estimators
from .estimator import Estimator
from .zo_hfl import zo_hfl

ESTIMATORS: dict[str, Callable[..., Estimator]] = {name: getattr(estimators, name) for name in estimators.__all__}

STEADY: dict[str, Any] = {"bounded": True, "remembered": 10, "fading": True, "spread": 0.3}
COUPLED: dict[str, Any] = {"estimator": "auto", "penalty": 30.0, "proximity": 10.0}
"""Chosen on validation rows of images with softmax regression, mlp and nets (docs/estimators.md); penalty and proximity belong
to the problem, the rest to the method."""
GIVES_WAY: dict[tuple[str, Any], dict[str, Any]] = {
    ("shared_directions", True): {"remembered": 0, "fading": False, "spread": 0.0},  # they need replies one by one
    ("remembered", 0): {"spread": 0.0},
}


def zo_hfl_keys(
    *,
    estimator: str = "sphere",
    smoothing: float = 0.1,
    directions: int = 1,
    guide: str = "displacement",
    mix: float = 0.0,
    control: bool = False,
    coupled: bool = True,
    uplink: str = "auto",
    start: str = "probe",
    remembered: int = 0,
    fading: bool = False,
    spread: float = 0.0,
    shared_directions: bool = False,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    bounded: bool = False,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
    server_lr: StepSize = "inverse_sqrt(0.01)",
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str = "sgd",
    server_weight_decay: Real = 0.0,
    averaging: int = 0,
    trust: float = 0.0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    """estimator "auto" is guided, the best by measurement (docs/estimators.md), and sphere where only values, models or
    slopes may leave a client; fine_tune = 0 leaves the personal model to the lower level."""
    if estimator == "auto":
        estimator = "sphere" if uplink in ("values", "models") or shared_directions else "guided"
    probes = {"smoothing": smoothing, "directions": directions, "guide": guide, "mix": mix, "control": control}
    return {
        "estimator": _estimator(estimator, probes),
        "local": local(client_lr, batch, bounded, momentum, weight_decay),
        "server": server_descent(server_lr, server_batch, server_steps, server_step, averaging, trust, server_weight_decay),
        "personal": personal_rule(fine_tune, batch, personal.lower_level()),
        "coupled": coupled,
        "uplink": uplink,
        "start": start,
        "remembered": remembered,
        "fading": fading,
        "spread": spread,
        "shared_directions": shared_directions,
    }


def _estimator(name: str, given: dict[str, Any]) -> Estimator:
    choice("estimator", name, ("auto", *ESTIMATORS))
    known = inspect.signature(ESTIMATORS[name]).parameters
    defaults = inspect.signature(zo_hfl_keys).parameters
    for key, value in given.items():
        fits = key in known or value == defaults[key].default
        require(fits, key, value, f"has no meaning for the estimator {name}", f"leave {key} out, or choose another estimator")
    return ESTIMATORS[name](**{key: value for key, value in given.items() if key in known})


ENTRIES = {
    "zo_hfl": Entry(
        zo_hfl, zo_hfl_keys, "ZO-HFL", "two levels",
        "two levels: server data and personal models; a client sends two values of f2, or its estimate", bibtex.ZO_HFL,
        recommended=COUPLED | STEADY | SERVER | TUNED, gives_way=GIVES_WAY,
        grid={"server_lr": [0.0003, 0.001, 0.003, 0.01], "penalty": [10.0, 30.0], "fine_tune": TUNING},
    ),
}  # fmt: skip
