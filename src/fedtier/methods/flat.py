"""What the flat keys of a configuration's [method] table have in common.

Each family has a file `entries.py` with one function a method: its keyword arguments are the keys with their types and
defaults, and it returns the keyword arguments of the method's factory. The defaults are the papers'; a row's `recommended`
has what we advise instead (`preset`). A number as a step size is a constant step; a schedule has a name:
"inverse_sqrt(0.01)" is 0.01/sqrt(r + 1) in round r, "inverse(0.1)" is 0.1/(t + 1) in local step t.
"""

from __future__ import annotations

from typing import Any

import optax
from jax.core import Tracer
from jaxtyping import Array, Float

from ..errors import called, choice, not_negative, require
from ..schedules import StepSize, as_schedule, constant
from . import personal, solvers
from .descent import ServerDescent, by_round, descent
from .personal import PersonalRule
from .solvers import ProjectedSgd

Parts = dict[str, Any]  # keyword arguments of a factory
Real = float | Float[Array, ""]  # a number, traced in a search

TRANSFORMS = {"sgd": optax.identity, "momentum": lambda: optax.trace(0.9), "adam": optax.scale_by_adam}

KEYS_OF_PARTS: dict[str, tuple[str, ...]] = {
    "estimator": ("estimator", "smoothing", "directions", "guide", "mix", "control"),
    "local": ("client_lr", "batch", "bounded", "momentum", "weight_decay"),
    "server": ("server_step", "server_lr", "server_steps", "server_batch", "server_weight_decay", "averaging", "trust"),
    "personal": ("fine_tune",),
}
"""The keys that a part has in itself: a program that gives the part whole gives none of them."""

SERVER: dict[str, Any] = {
    "server_step": "adam", "server_lr": "inverse_sqrt(0.003)", "server_steps": 20, "server_batch": 512, "averaging": 3,
}  # fmt: skip
TUNED: dict[str, Any] = {"fine_tune": "inverse(0.1)"}
CLIENT: dict[str, Any] = {"client_lr": 0.1, "averaging": 3}
"""What is recommended for parts that several methods have: a comparison of defaults compares methods, not optimisers. A
constant client step serves the baselines better than the paper's 0.1/(t + 1)."""

SIZES = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
"""The sizes of a client's constant step that are searched: images want 0.001, small tables 0.3."""
FINER = sorted([*SIZES, 0.0005, 0.002, 0.005, 0.02, 0.05, 0.15, 0.2, 0.5])
"""The sizes of a client's step where nothing else is searched."""
TUNING = [0.1, 0.3]
"""The sizes of the fine-tuning step that are searched."""


def local(
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    bounded: bool = False,
    momentum: float = 0.0,
    weight_decay: Real = 0.0,
) -> ProjectedSgd:
    """A client's solver from its flat keys."""
    step = as_schedule("client_lr", client_lr, constant)
    return solvers.projected_sgd(step, batch=batch, bounded=bounded, momentum=momentum, weight_decay=weight_decay)


def trained(client_lr: StepSize, batch: int, fine_tune: StepSize, momentum: float = 0.0, weight_decay: Real = 0.0) -> Parts:
    """The parts of a method that trains locally and may fine-tune what comes of it, by plain SGD."""
    solver = local(client_lr, batch, momentum=momentum, weight_decay=weight_decay)
    return {"local": solver, "personal": personal_rule(fine_tune, batch, personal.global_model())}


def personal_rule(fine_tune: StepSize, batch: int, otherwise: PersonalRule) -> PersonalRule:
    """Fine-tuning with this step, or `otherwise` where it is 0."""
    if fine_tune == 0:
        return otherwise
    negative = isinstance(fine_tune, int | float) and fine_tune < 0
    require(not negative, "fine_tune", fine_tune, "must be a step above 0, or 0 for none", "0.1, or inverse(0.1)")
    return personal.fine_tune(as_schedule("fine_tune", fine_tune, constant), batch=batch)


def server_descent(
    lr: StepSize, batch: int, steps: int, step: str, averaging: int, trust: float, weight_decay: Real = 0.0
) -> ServerDescent:
    """The server's descent from its flat keys; with Adam weight decay is beside its update (AdamW), else in the gradient."""
    choice("server_step", step, TRANSFORMS)
    not_negative("server_weight_decay", weight_decay)
    transform = TRANSFORMS[step]()
    if isinstance(weight_decay, Tracer) or weight_decay:
        decay = optax.add_decayed_weights(weight_decay)
        transform = optax.chain(transform, decay) if step == "adam" else optax.chain(decay, transform)
    optimiser = by_round(transform, as_schedule("server_lr", lr, constant))
    with called({"batch": "server_batch", "steps": "server_steps"}):
        return descent(optimiser, steps=steps, batch=batch, averaging=averaging, trust=trust)
