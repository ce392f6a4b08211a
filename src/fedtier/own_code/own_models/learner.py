"""Models of clients' own as the learner of a method: called from plain Python, never looked into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from ... import trees
from ...federation import View
from ...methods.method import ClientSpec, Turn
from ...methods.predictions.learners import Learner, Lesson, Said, shown_to
from ...problem import Rows
from ...protocol import foreign
from .contract import Guidance, OwnModel, logits_of
from .kept import NEW, Kept, name_of, taught, untaught

Make = Callable[[], OwnModel]
Prepare = Callable[[np.ndarray], np.ndarray]  # stored inputs -> as a model gets them


class Fits(NamedTuple):
    """The words of a fit that JAX does not know."""

    makers: Sequence[Make]  # a new model for client i: makers[i], or the only one
    kept: Kept
    prepare: Prepare
    classes: int


def learner_of(makers: Sequence[Make], kept: Kept, prepare: Prepare, classes: int) -> Learner:
    """The learner whose clients have these models; `kept` holds them, and a client's state is a name in it."""
    fits = Fits(makers, kept, prepare, classes)
    state = jax.ShapeDtypeStruct((2,), np.uint32)

    def learn(
        name: Array, lesson: Lesson, view: View, spec: ClientSpec, turn: Turn, key: Key[Array, ""]
    ) -> tuple[PyTree, Said]:
        rows = lesson.outputs.shape[0]
        shapes = (jax.ShapeDtypeStruct((rows, classes), np.float32), jax.ShapeDtypeStruct((rows,), np.bool_))
        like = (state, Said(*shapes))  # pyright: ignore[reportArgumentType]  shapes in place of arrays
        weight = jnp.asarray(lesson.weight, jnp.float32)
        told = (name, lesson.outputs, weight, turn.steps, turn.client, jax.random.key_data(key))
        return foreign.call(lambda *given: _fitted(fits, *given), like, *told, view)

    def predict(name: PyTree, view: View) -> Callable[..., PyTree]:
        def of(inputs: Array | np.ndarray) -> Array:
            like = jax.ShapeDtypeStruct((inputs.shape[0], classes), np.float32)
            return foreign.call(lambda name, inputs: _asked(fits, name, inputs), like, name, inputs)

        return of

    return Learner(lambda x, spec: jnp.zeros(2, jnp.uint32), learn, predict)


def _fitted(
    fits: Fits, name: np.ndarray, outputs: np.ndarray, weight: np.ndarray, steps: np.ndarray, client: np.ndarray,
    words: np.ndarray, view: View,
) -> tuple[np.ndarray, Said]:  # fmt: skip
    shown = shown_to(view)
    rows = len(shown.known)
    if int(steps) == 0:
        return name, Said(np.zeros((rows, fits.classes), np.float32), np.zeros(rows, bool))  # pyright: ignore[reportArgumentType]
    inputs = fits.prepare(np.asarray(shown.inputs))
    known = np.asarray(shown.known)
    guidance = Guidance(
        inputs[known], _shares(np.asarray(outputs)[known]), float(weight), fits.classes, int(steps), int(words[-1] >> 1)
    )
    model = _model(fits, name_of(name), int(client))
    model.fit(rows_of(view, fits.prepare), guidance)
    drawn = name_of(words)
    made = taught(drawn, guidance.shares.tobytes()) if weight > 0 else untaught(drawn)
    fits.kept.put(made, model)
    logits, said = logits_of(model.predict_proba(inputs), rows, fits.classes, f"client {int(client)}")
    said = said & known
    return np.asarray(made, np.uint32), Said(np.where(said[:, None], logits, 0).astype(np.float32), said)  # pyright: ignore[reportArgumentType]


def _asked(fits: Fits, name: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    if name_of(name) == NEW:  # before its first fit a model holds all classes for alike
        return np.zeros((len(inputs), fits.classes), np.float32)
    model = fits.kept.get(name_of(name))
    found = model.predict_proba(fits.prepare(np.asarray(inputs)))
    return logits_of(found, len(inputs), fits.classes, "model")[0]


def _model(fits: Fits, name: tuple[int, int], client: int) -> OwnModel:
    if name != NEW:
        return fits.kept.get(name)
    return fits.makers[client if len(fits.makers) > 1 else 0]()


def rows_of(view: View, prepare: Prepare) -> Rows:
    """All rows of the window, prepared."""
    first = int(view.start)
    index = np.asarray(view.index)[first : first + int(view.size)]
    rows = trees.map(lambda a: np.asarray(a)[index], view.arrays)
    return rows._replace(inputs=prepare(rows.inputs))


def _shares(outputs: np.ndarray) -> np.ndarray:
    e = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)
