"""Personal models of methods that train none: the global model as it is, or after local steps of plain SGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PyTree

from .. import keys
from ..federation import View
from ..keys import Tag
from ..schedules import StepSize, as_schedule, inverse
from .method import Turn
from .solvers import sgd


def fine_tuned(loss: Callable[..., Any], fine_tune: StepSize, batch: int) -> Callable[..., PyTree]:
    """personal_model(client, x, view, spec, turn): x itself where `fine_tune` is 0, else x after `turn.steps` steps
    c/(t + 1) on the client's own rows, c = `fine_tune` (or a schedule)."""
    if fine_tune == 0:
        return lambda client, x, view, spec, turn: x
    lr = as_schedule("fine_tune", fine_tune, inverse)

    def personal_model(client: Any, x: PyTree, view: View, spec: Any, turn: Turn) -> PyTree:
        key = keys.at(turn.key, Tag.PERSONAL)
        return sgd(jax.grad(loss), x, view, turn.steps, key, lr=lr, batch=batch, scale=spec.step_scale)

    return personal_model
