"""Who learns at a client: any model, as two functions over a state that only it understands.

    learn(state, lesson, view, spec, turn, key) -> (state, Said)      on the client's rows and the guidance of the lesson
    predict(state, view) -> inputs -> outputs                         None: the state is the parameters of the problem's model

`net` is a net like the server's, trained by the client's own loop and compiled with all others. `fedtier.own_code.learners` has
those that cannot be looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key, PyTree

from ... import keys, trees
from ...errors import FedtierError, require
from ...federation import Shown, View
from ...keys import Tag
from ...problem import Bilevel, Model
from ..method import ClientSpec, Predict, Turn
from ..parts import check_plain
from ..solvers import ProjectedSgd, walk
from .divergences import Divergence, Outputs, mean_over_said


class Lesson(NamedTuple):
    """What a client is taught beside its own rows."""

    outputs: Outputs  # z: the teacher's outputs on the rows that are shown
    weight: ArrayLike  # mu: how much they count beside the loss on the client's own rows; 0: not at all


class Said(NamedTuple):
    """What a client's model says of the rows that are shown."""

    outputs: Outputs  # a logit per class; 0 where nothing is said
    said: Bool[Array, "P"]


@runtime_checkable
class Learn(Protocol):
    def __call__(
        self, state: PyTree, lesson: Lesson, view: View, spec: ClientSpec, turn: Turn, key: Key[Array, ""], /
    ) -> tuple[PyTree, Said]:
        """The state after turn.steps steps, or that much work, and what the model says then. With 0 steps the state stays."""
        ...


class Learner(NamedTuple):
    """See the module."""

    init: Callable[[PyTree, ClientSpec], PyTree]  # (x, spec) -> the first state
    learn: Learn
    predict: Predict | None = None


Step = Callable[[PyTree, PyTree, PyTree, Outputs, Bool[Array, "B"], ArrayLike], Float[Array, ""]]


def refuse_noise(local: ProjectedSgd) -> None:
    """Refuses privacy of rows, which these steps, along more than one loss, do not give."""
    rule = "is not given by steps that follow what others say as well"
    require(local.private is None, "privacy.kind", "rows", rule, "leave [privacy] out")


def model_of(problem: Bilevel, name: str) -> Model:
    """The model of the problem; refused where it has none."""
    if problem.model is None:
        hint = "problem._replace(model=model, outputs=10), which ft.train does by itself"
        raise FedtierError("problem", "no model", f"{name} compares predictions and needs the model", hint)
    return problem.model


def shown_to(view: View) -> Shown:
    """The rows that this client may see."""
    assert isinstance(view.shown, Shown), "an engine gives them to every client of a method that shows rows"
    return view.shown


def outputs_at(model: Model, x: PyTree, shown: Shown) -> Outputs:
    return model.apply(x, shown.inputs)


def net(problem: Bilevel, local: ProjectedSgd, divergence: Divergence, name: str) -> Learner:
    """SGD on h(y) = f1(y, minibatch) + mu mean D(z, y's outputs) over a minibatch of the rows that are shown, or over all of
    them where they are no more than a minibatch. The state is y, and stays from round to round."""
    check_plain(local)
    refuse_noise(local)
    require(not local.bounded, "bounded", True, f"{name} has steps along two losses, of which it bounds none", "bounded=False")
    model = model_of(problem, name)

    def learn(y: PyTree, lesson: Lesson, view: View, spec: ClientSpec, turn: Turn, key: Key[Array, ""]) -> tuple[PyTree, Said]:
        def loss(y: PyTree, rows: PyTree, t: ArrayLike) -> Float[Array, ""]:
            return problem.f1(y, rows) + jnp.asarray(lesson.weight) * guidance(
                model, divergence, y, lesson, view, local.batch, key, t
            )

        def move(t: ArrayLike, y: PyTree, rows: PyTree) -> PyTree:
            return trees.axpy(-local.step(t) * spec.step_scale, jax.grad(loss)(y, rows, t), y)

        y = walk(move, y, view, turn.steps, key, batch=local.batch, augment=local.augment)
        return y, says(model, y, view, turn)

    return Learner(lambda x, spec: x, learn)


def guidance(
    model: Model, divergence: Divergence, y: PyTree, lesson: Lesson, view: View, batch: int, key: Key[Array, ""], t: ArrayLike
) -> Float[Array, ""]:
    """mean D(z, y's outputs) over the minibatch of step t of the rows that are shown."""
    shown, z = shown_to(view), lesson.outputs
    if shown.known.shape[0] > batch:
        which = keys.below(keys.at(key, t, Tag.SHOWN), jnp.sum(shown.known), batch)  # those that are known come first
        shown, z = Shown(shown.inputs[which], jnp.ones(batch, bool)), z[which]
    return mean_over_said(divergence(z, outputs_at(model, y, shown)), shown.known)


def says(model: Model, y: PyTree, view: View, turn: Turn) -> Said:
    """What the model says of the rows that are shown; nothing where it has made no step."""
    said = shown_to(view).known & (turn.steps > 0)
    return Said(jnp.where(said[:, None], outputs_at(model, y, shown_to(view)), 0.0), said)
