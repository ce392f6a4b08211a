"""The parts that a method is made of, and the refusal of what is none."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import require
from .descent import ServerDescent
from .personal import PersonalRule
from .solvers import ProjectedSgd
from .two_levels.estimator import Estimator


class Kind(NamedTuple):
    type: type
    words: str
    example: str


KINDS = {
    "estimator": Kind(Estimator, "an estimator", "guided(smoothing=0.1)"),
    "local": Kind(ProjectedSgd, "a local solver", "projected_sgd(0.1, batch=32)"),
    "server": Kind(ServerDescent, "a server's descent", "descent(optax.adam(3e-3), steps=20)"),
    "personal": Kind(PersonalRule, "a personal rule", "fine_tune(0.1)"),
}


def check_parts(**given: object) -> None:
    """Refuses a part of a wrong kind, for example the flat word of a configuration."""
    for name, value in given.items():
        kind = KINDS[name]
        require(isinstance(value, kind.type), name, value, f"must be {kind.words}", f"for example {name}={kind.example}")


def check_plain(local: ProjectedSgd) -> None:
    """Refuses a local solver with momentum or weight decay, for methods whose steps are not its gradient steps."""
    for name in ("momentum", "weight_decay"):
        value = getattr(local, name)
        require(not value, name, value, "is for methods that take gradient steps of one loss", f"{name}=0")
