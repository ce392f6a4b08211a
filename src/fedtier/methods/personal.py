"""Personal models of methods that train none: the global model as it is, or after local steps of plain SGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PyTree

from .. import keys
from ..federation import View
from ..keys import Tag
from ..schedules import Schedule
from .method import Turn
from .solvers import sgd


def fine_tuned(loss: Callable[..., Any], lr: Schedule, batch: int, fine_tune: bool) -> Callable[..., PyTree]:
    """personal_model(client, x, view, spec, turn): x itself, or x after `turn.steps` steps on the client's own rows."""

    def personal_model(client: Any, x: PyTree, view: View, spec: Any, turn: Turn) -> PyTree:
        if not fine_tune:
            return x
        key = keys.at(turn.key, Tag.PERSONAL)
        return sgd(jax.grad(loss), x, view, turn.steps, key, lr=lr, batch=batch, scale=spec.step_scale)

    return personal_model
