"""Clients that never train, and what becomes of them: a personal model by the method's own rule, from the final global model.

    y_new = personal_model(client_init(x), x, the newcomer's rows)

A method without a global model starts where its clients did. A newcomer's weight and step scale are 1, the average's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PyTree

from ..compilation import jitted
from ..engines import State
from ..errors import FedtierError, require
from ..federation import View, Window, shown_rows
from ..methods.method import Method, Turn, turn_of
from ..problem import Spec
from ..storage.json_value import Json
from .assemble import Experiment
from .metric_row import AtTheEnd
from .metrics import Quality, error_spread, personal_quality, quality, spread
from .tables import Config

FIRST = 2**30  # newcomers are numbered from here on: no client of a run draws at the same address


class NewScores(NamedTuple):
    """[seeds, k] of the k newcomers, on the rows that each holds back."""

    adapted: Quality  # of the model made for it
    shared: Quality  # of the global model
    held: np.ndarray  # how many rows these are


def spec_of_newcomer(config: Config, radius: float | None = None) -> Spec:
    """A newcomer's row; `radius` where the run has one for each client and none for a new one."""
    limit = config.method.radius if radius is None else radius
    if isinstance(limit, list):
        rule = "has one number for each client of the run, and none for a new one"
        raise FedtierError("method.radius", limit, rule, "give the newcomer's: radius = 0.5")
    return Spec(*(jnp.asarray(a, jnp.result_type(float)) for a in (1.0, jnp.inf if limit is None else limit, 1.0)))


def adapted_model(
    method: Method, server: PyTree, x: PyTree | None, first: PyTree, view: View, spec: Spec, turn: Turn
) -> PyTree:
    """The personal model of a client that was not in training; `first` is x_0, for methods without a global model. `server` is
    asked for what it offers, where the method offers anything."""
    client = method.briefed(method.client_init(first if x is None else x, spec), server, turn)
    return method.personal_model(client, x, view, spec, turn)


def newcomer_evaluator(experiment: Experiment) -> Callable[[State, int], NewScores | None]:
    """evaluate(state, round) -> the scores of the newcomers; None where there are none."""
    if experiment.new is None:
        return lambda state, number: None
    rule = "cannot be measured with a black box at the clients, which has no compiled form"
    require(experiment.compiles, "data.new_clients", experiment.config.data.new_clients, rule, "leave it out")
    spec, count = spec_of_newcomer(experiment.config), experiment.new.train.start.shape[-1]

    def one_seed(member: tuple) -> tuple[Quality, Quality]:
        server, first, index, train, held, key, window, number, steps, arrays = member
        x = experiment.method.global_model(server)
        shows = experiment.method.shows
        shown = shown_rows(View(arrays, index, *window), shows) if shows else ()

        def one(client: tuple) -> tuple[Quality, Quality]:
            i, train, held = client
            turn = turn_of(number, FIRST + i, steps, key)
            rows = View(arrays, index, *held)
            own = View(arrays, index, *train)._replace(shown=shown)
            y = adapted_model(experiment.method, server, x, first, own, spec, turn)
            return personal_quality(experiment, y, own, rows), quality(experiment, x, rows)

        return jax.lax.map(one, (jnp.arange(count), Window(*train), Window(*held)))

    def all_seeds(arrays: PyTree, number: Array, steps: Array, *members: PyTree) -> tuple[Quality, Quality]:
        return jax.lax.map(lambda member: one_seed((*member, number, steps, arrays)), members)

    program, new = jitted(all_seeds), experiment.new

    def evaluate(state: State, number: int) -> NewScores:
        federation, steps = experiment.federation, int(experiment.steps[number].max())
        members = (state.server, experiment.x, federation.index, new.train, new.held, experiment.key, federation.server)
        found = program(federation.arrays, jnp.asarray(number), jnp.asarray(steps), *members)
        adapted, shared = (Quality(*(_full(a, new.held.size.shape) for a in one)) for one in found)
        return NewScores(adapted, shared, np.asarray(new.held.size))

    return evaluate


def _full(values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.asarray(values).reshape(*np.shape(values), *[1] * (len(shape) - np.ndim(values))), shape)


def newcomer_row(scores: NewScores | None, s: int, unit: float | None) -> AtTheEnd:
    """What the line of seed number s says of the newcomers: nothing where there are none."""
    if scores is None:
        return {}
    held = scores.held[s]
    if unit is None:
        told = {"adapted_accuracy": scores.adapted.accuracy, "global_accuracy": scores.shared.accuracy}
        return {"new_clients": {name: spread(values[s], held) for name, values in told.items()}}
    errors = {"adapted_rmse": scores.adapted.rmse, "global_rmse": scores.shared.rmse}
    return {"new_clients": {name: error_spread(values[s] * unit, held) for name, values in errors.items()}}


def newcomers_told(scores: NewScores | None, names: tuple[str, ...], s: int, unit: float | None) -> dict[str, Json]:
    """What clients.json says of each newcomer of seed number s."""
    if scores is None:
        return {}
    errors = unit is not None
    adapted, shared = (one.accuracy[s] if unit is None else one.rmse[s] * unit for one in (scores.adapted, scores.shared))
    word = "_rmse" if errors else ""
    known = {f"adapted{word}": adapted, f"global{word}": shared}
    lists = {key: [float(v) if np.isfinite(v) else None for v in values] for key, values in known.items()}
    return {"new_clients": {"names": list(names), "held": scores.held[s].tolist()} | lists}
