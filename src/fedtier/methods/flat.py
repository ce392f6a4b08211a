"""The flat keys of a configuration's [method] table, and the parts of a method that they stand for.

One function a method: its keyword arguments are the keys with their types and defaults, and it returns the keyword arguments
of the method's factory. The defaults here are the papers'; RECOMMENDED has what we advise instead (`preset`). A number as a
step size is a constant step; a schedule has a name: "inverse_sqrt(0.01)" is 0.01/sqrt(r + 1) in round r, "inverse(0.1)" is
0.1/(t + 1) in local step t. A key that has no meaning beside the others is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import optax
from jaxtyping import Array, Float

from ..errors import called, choice, require
from ..schedules import StepSize, as_schedule, constant
from . import estimators, personal, solvers
from .descent import ServerDescent, by_round, descent
from .estimator import Estimator
from .personal import PersonalRule
from .solvers import ProjectedSgd

Parts = dict[str, Any]  # keyword arguments of a factory
Real = float | Float[Array, ""]  # a number, traced in a search

ESTIMATORS: dict[str, Callable[..., Estimator]] = {name: getattr(estimators, name) for name in estimators.__all__}
TRANSFORMS = {"sgd": optax.identity, "momentum": lambda: optax.trace(0.9), "adam": optax.scale_by_adam}

KEYS_OF_PARTS: dict[str, tuple[str, ...]] = {
    "estimator": ("estimator", "smoothing", "directions", "guide", "mix", "control"),
    "local": ("client_lr", "batch", "bounded"),
    "server": ("server_step", "server_lr", "server_steps", "server_batch", "averaging", "trust"),
    "personal": ("fine_tune",),
}
"""The keys that a part has in itself: a program that gives the part whole gives none of them."""

SERVER: dict[str, Any] = {
    "server_step": "adam", "server_lr": "inverse_sqrt(0.003)", "server_steps": 20, "server_batch": 512, "averaging": 3,
}  # fmt: skip
STEADY: dict[str, Any] = {"bounded": True, "remembered": 10, "fading": True}
TUNED: dict[str, Any] = {"fine_tune": "inverse(0.1)"}
CLIENT: dict[str, Any] = {"client_lr": 0.1, "averaging": 3}

RECOMMENDED: dict[str, dict[str, Any]] = {
    "zo_hfl": {"estimator": "auto", "penalty": 30.0, "proximity": 10.0} | STEADY | SERVER | TUNED,
    "fedavg": CLIENT | TUNED,
    "fedprox": CLIENT | TUNED,
    "scaffold": CLIENT | TUNED,
    "ditto": CLIENT,
    "server_only": SERVER | TUNED,
    "local_only": {"client_lr": 0.1},
}
"""The keys of preset = "recommended" that differ from the papers'. The server's part is one for all that have one, and so is
the rule for personal models: a comparison of defaults compares methods, not optimisers. ZO-HFL's setting was chosen on
validation rows of MNIST and Fashion-MNIST at two levels of heterogeneity (docs/estimators.md); penalty and proximity belong
to the problem, the rest to the method. A constant client step serves the baselines better than the paper's 0.1/(t + 1)."""

SIZES = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]  # of a client's constant step: images want 0.001, small tables 0.3

GRIDS: dict[str, dict[str, list[float]]] = {
    "zo_hfl": {"server_lr": [0.0003, 0.001, 0.003, 0.01], "penalty": [10.0, 30.0], "fine_tune": [0.1, 0.3]},
    "fedavg": {"client_lr": SIZES, "fine_tune": [0.1, 0.3]},
    "fedprox": {"client_lr": [0.001, 0.01, 0.1, 0.5], "proximity": [0.01, 0.1], "fine_tune": [0.1, 0.3]},
    "scaffold": {"client_lr": SIZES, "fine_tune": [0.1, 0.3]},
    "ditto": {"client_lr": SIZES, "proximity": [0.03, 0.3]},
    "server_only": {"server_lr": [0.0001, 0.0003, 0.001, 0.002, 0.003, 0.006, 0.01, 0.03], "fine_tune": [0.1, 0.3]},
    "local_only": {"client_lr": [*SIZES, 0.0001, 0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 0.5]},
}
"""What a tuned comparison searches: the same number of points for every method. A step is searched by its size; its shape is
that of the configuration."""


def zo_hfl(
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
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    bounded: bool = False,
    server_lr: StepSize = "inverse_sqrt(0.01)",
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str = "sgd",
    averaging: int = 0,
    trust: float = 0.0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    """estimator "auto" is guided, the best by measurement (docs/estimators.md), and sphere where only values or models may
    leave a client; fine_tune = 0 leaves the personal model to the lower level."""
    if estimator == "auto":
        estimator = "sphere" if uplink in ("values", "models") else "guided"
    probes = {"smoothing": smoothing, "directions": directions, "guide": guide, "mix": mix, "control": control}
    return {
        "estimator": _estimator(estimator, probes),
        "local": local(client_lr, batch, bounded),
        "server": _server(server_lr, server_batch, server_steps, server_step, averaging, trust),
        "personal": _personal(fine_tune, batch, personal.lower_level()),
        "coupled": coupled,
        "uplink": uplink,
        "start": start,
        "remembered": remembered,
        "fading": fading,
    }


def fedavg(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"weighting": weighting, "averaging": averaging} | _trained(client_lr, batch, fine_tune)


def fedprox(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"proximity": proximity, "weighting": weighting, "averaging": averaging}
    return more | _trained(client_lr, batch, fine_tune)


def scaffold(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    server_rate: Real = 1.0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {"server_rate": server_rate, "averaging": averaging} | _trained(client_lr, batch, fine_tune)


def ditto(
    *,
    proximity: Real = 0.1,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    weighting: str = "data",
    averaging: int = 0,
) -> Parts:
    return {"proximity": proximity, "weighting": weighting, "averaging": averaging, "local": local(client_lr, batch)}


def server_only(
    *,
    server_lr: StepSize = "inverse_sqrt(0.01)",
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str = "sgd",
    averaging: int = 0,
    batch: int = 32,
    fine_tune: StepSize = 0.0,
) -> Parts:
    return {
        "server": _server(server_lr, server_batch, server_steps, server_step, averaging, 0.0),
        "personal": _personal(fine_tune, batch, personal.global_model()),
    }


def local_only(*, client_lr: StepSize = "inverse(0.1)", batch: int = 32) -> Parts:
    return {"local": local(client_lr, batch)}


def local(client_lr: StepSize = "inverse(0.1)", batch: int = 32, bounded: bool = False) -> ProjectedSgd:
    """A client's solver from its flat keys."""
    return solvers.projected_sgd(as_schedule("client_lr", client_lr, constant), batch=batch, bounded=bounded)


def _trained(client_lr: StepSize, batch: int, fine_tune: StepSize) -> Parts:
    return {"local": local(client_lr, batch), "personal": _personal(fine_tune, batch, personal.global_model())}


def _personal(fine_tune: StepSize, batch: int, otherwise: PersonalRule) -> PersonalRule:
    if fine_tune == 0:
        return otherwise
    return personal.fine_tune(as_schedule("fine_tune", fine_tune, constant), batch=batch)


def _estimator(name: str, given: dict[str, Any]) -> Estimator:
    choice("estimator", name, ("auto", *ESTIMATORS))
    known = inspect.signature(ESTIMATORS[name]).parameters
    defaults = inspect.signature(zo_hfl).parameters
    for key, value in given.items():
        fits = key in known or value == defaults[key].default
        require(fits, key, value, f"has no meaning for the estimator {name}", f"leave {key} out, or choose another estimator")
    return ESTIMATORS[name](**{key: value for key, value in given.items() if key in known})


def _server(lr: StepSize, batch: int, steps: int, step: str, averaging: int, trust: float) -> ServerDescent:
    choice("server_step", step, TRANSFORMS)
    optimiser = by_round(TRANSFORMS[step](), as_schedule("server_lr", lr, constant))
    with called({"batch": "server_batch", "steps": "server_steps"}):
        return descent(optimiser, steps=steps, batch=batch, averaging=averaging, trust=trust)
