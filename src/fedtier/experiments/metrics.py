"""What a run is judged by, measured outside the compiled rounds.

The objective f(x) = f1(x) + mean f2(x, y_i(x)) is a function of x alone, so it is comparable across methods: y_i(x) is
solved afresh by the problem's own lower level, whatever the method. Personal models are the method's own, each judged on
its client's own held-back rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import keys, trees
from ..compilation import jitted
from ..engines import Engine, Measure, State
from ..federation import Total, View, in_turn, mean_over_rows
from ..keys import Tag
from ..methods.method import Turn
from ..problem import Model, Rows, residuals
from ..protocol import message_shapes
from .assemble import Algorithm, Experiment
from .bundle.keep import is_kept
from .metric_row import Spread
from .planning import steps_of_epochs

FEWEST = 10  # held-back rows from which a client may be the worst one: two rows say nothing about a model

Values = Array | np.ndarray  # a number for each seed, and for each client where [c] is said
NONE: Values = np.nan  # pyright: ignore[reportAssignmentType]  no number, in whatever shape the others have


class Quality(NamedTuple):
    """How well a model predicts some rows, each counting by its weight where rows have weights. NaN where the task has no such
    number, or there are no rows."""

    accuracy: Values = NONE  # share of the rows whose class is right
    rmse: Values = NONE  # of a regression: root of the mean squared error, in deviations of the label
    mae: Values = NONE  # mean absolute error, likewise
    r2: Values = NONE  # 1 - squared error / variance of the labels of these rows

    @property
    def main(self) -> Array:
        """The one number to show: the accuracy, or the rmse of a regression."""
        return jnp.where(jnp.isnan(self.accuracy), self.rmse, self.accuracy)


class Scores(NamedTuple):
    """One evaluation of one seed. NaN where there is nothing to measure."""

    f1: Values
    global_loss: Values  # on the global test rows
    test: Quality  # of the global model on the global test rows
    f2: Values  # [c] of the evaluated clients
    personal: Quality  # [c] of the personal model on the client's own held-back rows
    shared: Quality  # [c] of the global model on the same rows
    held: Values  # [c] how many rows these are
    models: PyTree = ()  # [c, ...] the personal models themselves, where they are kept


def evaluated_clients(experiment: Experiment) -> np.ndarray:
    """At most run.eval_clients clients, evenly spaced."""
    return evenly_spaced(experiment.clients, experiment.config.run.eval_clients)


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 .. count - 1, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int32))


def personal_quality(algorithm: Algorithm | Experiment, y: PyTree, view: View, held: View) -> Quality:
    """How well a client predicts the rows of `held`, from its personal model y and, where the method says so, its rows."""
    model, predict = algorithm.model, algorithm.method.predict
    if model is None or predict is None:
        return quality(algorithm, y, held)
    of = predict(y, view)
    return quality(algorithm, y, held, model._replace(apply=lambda x, inputs: of(inputs)))


def quality(
    algorithm: Algorithm | Experiment, x: PyTree | None, view: View, model: Model | None = None, total: Total = in_turn
) -> Quality:
    """How well `x` predicts the rows of `view`, by the algorithm's model or another one."""
    model = model or algorithm.model
    if model is None or x is None:
        return Quality()
    if algorithm.dataset.task == "classification":
        right = weighted_mean(lambda rows: jnp.argmax(model.apply(x, rows.inputs), axis=-1) == rows.labels, view, total)
        return Quality(accuracy=right)

    def mean(function: Callable[[Rows], Values]) -> Array:
        return weighted_mean(function, view, total)

    squared, centre = mean(lambda rows: residuals(model, x, rows) ** 2), mean(lambda rows: rows.labels)
    variance = mean(lambda rows: (rows.labels - centre) ** 2)
    known = jnp.where(variance > 0, 1 - squared / jnp.where(variance > 0, variance, 1), jnp.nan)
    return Quality(rmse=jnp.sqrt(squared), mae=mean(lambda rows: jnp.abs(residuals(model, x, rows))), r2=known)


def weighted_mean(function: Callable[[Rows], Values], view: View, total: Total = in_turn) -> Array:
    """sum w_k function(row k) / sum w_k over the rows of `view`, as scikit-learn's sample_weight has it; the plain mean where
    rows have no weights; NaN where there are no rows, or all of them weigh nothing."""
    mean = partial(mean_over_rows, view=view, total=total)
    if not isinstance(view.arrays, Rows) or view.arrays.weights is None:
        return mean(lambda rows: jnp.asarray(function(rows)))
    return mean(lambda rows: rows.weights * function(rows)) / mean(lambda rows: rows.weights)


def global_scores(
    algorithm: Algorithm | Experiment, x: PyTree | None, server: View, test: View, total: Total = in_turn
) -> tuple[Array | float, Array | float, Quality]:
    """(f1 on the server's rows, 0 where it has none; loss on the test rows; quality on them). f1 is the objective, whose
    weights have mean 1 over the training rows; the test loss is a weighted mean over the test rows. `total` as in
    `mean_over_rows`."""
    if x is None:
        return jnp.nan, jnp.nan, Quality()

    def losses(rows: PyTree) -> Array:
        return jax.vmap(lambda row: algorithm.problem.f1(x, trees.alone(row)))(rows)

    own = mean_over_rows(losses, server, total=total) if algorithm.problem.central else jnp.zeros(())
    loss = weighted_mean(lambda rows: losses(_alike(rows)), test, total)
    return own, loss, quality(algorithm, x, test, total=total)


def client_scores(
    algorithm: Algorithm | Experiment, state: PyTree, x: PyTree | None, view: View, held: View, spec: PyTree, turn: Turn,
    judge: Callable[[PyTree | None, View], Quality] | None = None,
) -> tuple[tuple[Array | float, Quality, Quality], PyTree]:  # fmt: skip
    """(f2, quality of the personal model on the client's held-back rows, of the global one), and the personal model. `judge` is
    `quality` of the algorithm, compiled where the rest is not."""
    given, judge = judge, judge or partial(quality, algorithm)

    def own(y: PyTree, view: View, held: View) -> Quality:
        if given is not None and algorithm.method.predict is not None:
            return _asked_quality(algorithm.method.predict(y, view), held)
        return personal_quality(algorithm, y, view, held) if given is None else given(y, held)

    y = algorithm.method.personal_model(state, x, view, spec, turn)
    if x is None:
        return (jnp.nan, own(y, view, held), Quality()), y
    if algorithm.method.coupling is not None:
        return (algorithm.method.coupling(y, x, view, spec), own(y, view, held), judge(x, held)), y
    if given is not None and algorithm.method.predict is not None:  # nothing that problem.f2 could compare
        return (jnp.nan, own(y, view, held), judge(x, held)), y
    key = keys.at(turn.key, Tag.PERSONAL)
    fresh = y if algorithm.method.lower_level else algorithm.solve(x, x, view, spec, turn.steps, key)
    return (algorithm.problem.f2(x, fresh, spec), own(y, view, held), judge(x, held)), y


def _asked_quality(predict: Callable[..., PyTree], held: View) -> Quality:
    """How well a model that has no compiled form predicts the rows of `held`: all of them in one call."""
    first, size = int(held.start), int(held.size)
    if not size:
        return Quality()
    rows = trees.map(lambda a: np.asarray(a)[np.asarray(held.index)[first : first + size]], held.arrays)
    right = np.argmax(np.asarray(predict(rows.inputs)), axis=-1) == rows.labels
    return Quality(accuracy=jnp.asarray(np.average(right, weights=rows.weights), jnp.float32))


def measure_of(experiment: Experiment, *, keep: bool = False) -> Measure:
    """What an engine's `evaluate` is to compute for `scores_of`; with `keep` it hands out the personal models too."""

    def of_model(
        x: PyTree | None, server: View, test: View, total: Total = in_turn
    ) -> tuple[Array | float, Array | float, Quality]:
        return global_scores(experiment, x, server, test, total)

    judge = None if experiment.compiles else jitted(partial(quality, experiment))

    run = experiment.config.run

    def of_client(client: PyTree, x: PyTree | None, view: View, held: View, spec: PyTree, turn: Turn) -> tuple[PyTree, ...]:
        if run.epochs is not None and run.personal_steps is None:  # clients of different seeds have different rows
            turn = turn._replace(steps=steps_of_epochs(experiment.config, view.size))
        scores, y = client_scores(experiment, client, x, view, held, spec, turn, judge)
        return (*scores, held.size, y if keep else ())

    return Measure(of_model if experiment.compiles else jitted(of_model), of_client)


def scores_of(measured: tuple[PyTree, PyTree]) -> Scores:
    """From what `evaluate` returns for `measure_of`."""
    (f1, loss, quality), (f2, personal, shared, held, models) = measured
    return Scores(f1, loss, quality, f2, personal, shared, held, models)


def evaluator(experiment: Experiment, engine: Engine) -> Callable[[State, int], Scores]:
    """evaluate(state, round) -> Scores with a leading axis for the seeds, by an engine of several seeds; with the
    personal models where they are small enough to be kept (run.keep_personal)."""
    chosen = evaluated_clients(experiment)
    measure = measure_of(experiment, keep=experiment.own is not None or is_kept(experiment, len(chosen)))

    def evaluate(state: State, number: int) -> Scores:
        steps = personal_steps(experiment, number)[chosen]
        return scores_of(engine.evaluate(state, experiment.federation, experiment.key, number, steps, measure, chosen))

    return evaluate


def personal_steps(experiment: Experiment, number: int) -> np.ndarray:
    """[m] the local steps from which a personal model is made when it is measured after round `number`."""
    said = experiment.config.run.personal_steps
    return experiment.steps[number] if said is None else np.full_like(experiment.steps[number], said)


def _alike(rows: PyTree) -> PyTree:
    """The rows with a weight of 1 each, where they have weights."""
    if not isinstance(rows, Rows) or rows.weights is None:
        return rows
    return rows._replace(weights=jnp.ones_like(rows.weights))


def spread(values: Values, held: Values | None = None) -> Spread:
    """Mean over the clients that have a value, each counting once; `by_rows` is the mean in which each of the `held` rows
    counts once; worst and 10th percentile are over those with at least FEWEST held-back rows. NaN in `held`: nobody says how
    many rows that client holds back, so there is no mean by rows, and the client may be the worst."""
    known = np.isfinite(values)
    held = np.full(len(values), np.nan) if held is None else held
    judged, weights = values[known & ~(held < FEWEST)], held[known]
    counted = np.isfinite(weights).all() and weights.any()
    return {
        "mean": float(values[known].mean()) if known.any() else None,
        "by_rows": float(np.average(values[known], weights=weights)) if counted else None,
        "min": float(judged.min()) if len(judged) else None,
        "p10": float(np.percentile(judged, 10)) if len(judged) else None,
    }


def error_spread(values: Values, held: Values | None = None) -> Spread:
    """`spread` of errors, of which the largest is the worst."""
    mirrored = spread(-values, held)
    return {name: None if mirrored[of] is None else -mirrored[of] for name, of in WORST_ERRORS.items()}  # pyright: ignore[reportOptionalOperand]


WORST_ERRORS = {"mean": "mean", "by_rows": "by_rows", "max": "min", "p90": "p10"}


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
