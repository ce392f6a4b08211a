"""A client chooses between the model that was taught and one that has learnt alone, by rows of its own that neither has seen.

    fit, kept = all but the last `share` of the client's rows, and those rows
    y_i       by the method, on fit                        a_i  by the same learner on fit, told nothing, as often as y_i
    personal  y_i where it is closer to the labels of kept, else a_i; whichever it is then learns from all rows

Closer: the mean square of the distance between probabilities and labels (Brier 1950), which stays bounded where a tree is
sure and wrong. What doubt there is speaks for a_i, and so does a client without a row to keep back. What the client says to
others is y_i's, which has seen fewer rows for it. Costs a second fit a round, and four in place of one for the personal model.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from ... import keys, trees
from ...errors import share as open_share
from ...federation import View, mean_over_rows
from ...keys import Tag
from ...problem import Bilevel, Rows
from ..method import ClientSpec, Method, Turn
from ..personal import held_back
from .learners import Learner, Lesson, model_of, shown_to


class Guarded(NamedTuple):
    client: PyTree  # the method's own state
    alone: PyTree  # a_i: what the learner keeps that is told nothing


def guarded(method: Method, problem: Bilevel, learner: Learner, share: float) -> Method:
    """The method with this choice at every client; the method itself at share = 0."""
    open_share("check", share)
    if not share:
        return method

    def alone(state: PyTree, view: View, spec: ClientSpec, turn: Turn, key: Key[Array, ""]) -> PyTree:
        nothing = Lesson(jnp.zeros((shown_to(view).known.shape[0], max(problem.outputs, 1))), 0.0)
        return learner.learn(state, nothing, view, spec, turn, key)[0]

    def local(state: Guarded, shared: PyTree, own: PyTree, view: View, spec: ClientSpec, turn: Turn) -> tuple[Guarded, PyTree]:
        fit, _ = held_back(view, share)
        client, up = method.local(state.client, shared, own, fit, spec, turn)
        return Guarded(client, alone(state.alone, fit, spec, turn, keys.at(turn.key, Tag.ALONE, Tag.SOLVE))), up

    def personal_model(state: Guarded, x: PyTree | None, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        fit, kept = held_back(view, share)
        trial = turn._replace(key=keys.at(turn.key, Tag.TRIAL))  # draws, hence names, of its own
        taught = _error(problem, learner, method.personal_model(state.client, x, fit, spec, trial), kept)
        other = _error(problem, learner, alone(state.alone, fit, spec, trial, alone_key(trial)), kept)
        end = alone(state.alone, view, spec, turn, alone_key(turn))
        better = taught < other  # False where there is no row
        return trees.where(better, method.personal_model(state.client, x, view, spec, turn), end)

    return method._replace(
        client_init=lambda x, spec: Guarded(method.client_init(x, spec), learner.init(x, spec)),
        local=local,
        personal_model=personal_model,
        solves=method.solves + 1,
    )


def alone_key(turn: Turn) -> Key[Array, ""]:
    """The address of the draws of a personal model that has learnt alone, and so the name by which a client's own is kept."""
    return keys.at(turn.key, Tag.ALONE, Tag.PERSONAL)


def _error(problem: Bilevel, learner: Learner, y: PyTree, kept: View) -> Float[Array, ""]:
    """How far predictions are from labels; NaN where there is no row. A model that has no compiled form is asked once."""
    if learner.predict is None:
        model = model_of(problem, "check")
        return mean_over_rows(lambda rows: _distances(model.apply(y, rows.inputs), rows), kept)
    first, size = int(kept.start), int(kept.size)
    rows = trees.map(lambda a: a[kept.index[first : first + size]], kept.arrays)
    return jnp.mean(_distances(learner.predict(y, kept)(rows.inputs), rows)) if size else jnp.asarray(jnp.nan)


def _distances(outputs: Float[Array, "B C"], rows: Rows) -> Float[Array, "B"]:
    if jnp.issubdtype(rows.labels.dtype, jnp.floating):
        return (outputs[:, 0] - rows.labels) ** 2
    return jnp.sum((jax.nn.softmax(outputs) - jax.nn.one_hot(rows.labels, outputs.shape[1])) ** 2, axis=1)
