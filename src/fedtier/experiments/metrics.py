"""What a run is judged by, measured outside the compiled rounds.

The objective f(x) = f1(x) + mean f2(x, y_i(x)) is a function of x alone, so it is comparable across methods: y_i(x) is
solved afresh by the problem's own lower level, whatever the method. Personal accuracy is that of the method's own
personal models, each on its client's own held-back rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import keys, trees
from ..engines import Engine, Measure, State
from ..federation import View, mean_over_rows
from ..keys import Tag
from ..methods.method import Turn
from ..problem import Rows
from ..protocol import message_shapes
from .assemble import Algorithm, Experiment


class Scores(NamedTuple):
    """One evaluation of one seed. NaN where there is nothing to measure."""

    f1: Any
    global_loss: Any  # on the global test rows
    global_accuracy: Any
    f2: Any  # [c] of the evaluated clients
    personal_accuracy: Any  # [c] personal model on the client's own test rows
    global_on_client: Any  # [c] global model on the same rows


def evaluated_clients(experiment: Experiment) -> np.ndarray:
    """At most run.eval_clients clients, evenly spaced."""
    count = min(experiment.clients, experiment.config.run.eval_clients)
    return np.unique(np.linspace(0, experiment.clients - 1, count).astype(np.int32))


def accuracy(algorithm: Algorithm | Experiment, x: PyTree | None, view: View) -> Any:
    if algorithm.model is None or x is None:
        return jnp.nan
    apply = algorithm.model.apply
    return mean_over_rows(lambda rows: jnp.argmax(apply(x, rows.inputs), axis=-1) == rows.labels, view)


def global_scores(algorithm: Algorithm | Experiment, x: PyTree | None, server: View, test: View) -> tuple[Any, Any, Any]:
    """(f1 on the server's rows, loss on the test rows, accuracy on them)."""

    def loss(view: View) -> Any:
        if x is None:
            return jnp.nan
        return mean_over_rows(lambda rows: jax.vmap(lambda row: algorithm.problem.f1(x, _one(row)))(rows), view)

    return loss(server), loss(test), accuracy(algorithm, x, test)


def client_scores(
    algorithm: Algorithm | Experiment, state: PyTree, x: PyTree | None, view: View, held: View, spec: Any, turn: Turn
) -> tuple[tuple[Any, Any, Any], PyTree]:
    """(f2, accuracy of the personal model on the client's held-back rows, of the global one), and the personal model."""
    y = algorithm.method.personal_model(state, x, view, spec, turn)
    if x is None:
        return (jnp.nan, accuracy(algorithm, y, held), jnp.nan), y
    key = keys.at(turn.key, Tag.PERSONAL)
    fresh = y if algorithm.method.lower_level else algorithm.solve(x, x, view, spec, turn.steps, key)
    return (algorithm.problem.f2(x, fresh, spec), accuracy(algorithm, y, held), accuracy(algorithm, x, held)), y


def measure_of(experiment: Experiment) -> Measure:
    """What an engine's `evaluate` is to compute for `scores_of`."""

    def of_model(x: PyTree | None, server: View, test: View) -> tuple[Any, Any, Any]:
        return global_scores(experiment, x, server, test)

    def of_client(client: PyTree, x: PyTree | None, view: View, held: View, spec: Any, turn: Turn) -> tuple[Any, Any, Any]:
        return client_scores(experiment, client, x, view, held, spec, turn)[0]

    return Measure(of_model, of_client)


def scores_of(measured: tuple[PyTree, PyTree]) -> Scores:
    """From what `evaluate` returns for `measure_of`."""
    (f1, loss, share), (f2, personal, shared) = measured
    return Scores(f1, loss, share, f2, personal, shared)


def evaluator(experiment: Experiment, engine: Engine) -> Callable[[State, int], Scores]:
    """evaluate(state, round) -> Scores with a leading axis for the seeds, by an engine of several seeds."""
    measure, chosen = measure_of(experiment), evaluated_clients(experiment)

    def evaluate(state: State, number: int) -> Scores:
        steps = experiment.steps[number][chosen]
        return scores_of(engine.evaluate(state, experiment.federation, experiment.key, number, steps, measure, chosen))

    return evaluate


def _one(row: PyTree) -> PyTree:
    return jax.tree.map(lambda a: a[None], row) if isinstance(row, Rows) else row[None]


def spread(values: np.ndarray, held: np.ndarray | None = None) -> dict[str, float | None]:
    """Mean, worst and 10th percentile over the clients that have a value, each client counting once; `by_rows` is the mean in
    which each of the `held` rows counts once."""
    known = np.isfinite(values)
    some, weights = values[known], None if held is None else held[known]
    if not len(some):
        return {"mean": None, "by_rows": None, "min": None, "p10": None}
    by_rows = None if weights is None or not weights.any() else float(np.average(some, weights=weights))
    return {"mean": float(some.mean()), "by_rows": by_rows, "min": float(some.min()), "p10": float(np.percentile(some, 10))}


class Traffic(NamedTuple):
    """Bytes of one letter, its head included; 0 when a method sends nothing."""

    down: int  # to one client, one round
    up: int  # from one client, one round


def traffic(experiment: Experiment, state: State) -> Traffic:
    """Read from the shapes of the messages; what the wire would carry."""
    federation = jax.tree.map(lambda a: a[0], experiment.federation._replace(arrays=()))
    view = View(experiment.federation.arrays, federation.index, *federation.server)
    first = jax.tree.map(lambda a: a[0], state)
    client, spec = trees.take(first.clients, 0), trees.take(federation.spec, 0)
    shapes = message_shapes(experiment.method, first.server, client, view, spec, federation.clients)
    return Traffic(0, 0) if shapes.silent else Traffic(shapes.down_bytes(), shapes.up_bytes())
