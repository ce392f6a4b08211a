"""The learner of FedMD: a net that digests what the others said, then revisits its own rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from ... import trees
from ...federation import View
from ...problem import Bilevel
from ..method import ClientSpec, Turn
from ..parts import check_plain
from ..solvers import ProjectedSgd, walk
from .divergences import Divergence
from .learners import Learner, Lesson, Said, guidance, model_of, refuse_noise, says


def digesting(problem: Bilevel, local: ProjectedSgd, apart: Divergence) -> Learner:
    """A net that digests first, then revisits its own rows."""
    check_plain(local)
    refuse_noise(local)
    model = model_of(problem, "fedmd")
    gradient = jax.grad(problem.f1)

    def learn(y: PyTree, lesson: Lesson, view: View, spec: ClientSpec, turn: Turn, key: Key[Array, ""]) -> tuple[PyTree, Said]:
        def digest(y: PyTree, t: ArrayLike) -> Float[Array, ""]:
            return jnp.asarray(lesson.weight) * guidance(model, apart, y, lesson, view, local.batch, key, t)

        def step(t: ArrayLike, y: PyTree) -> PyTree:
            return trees.axpy(-local.step(t) * spec.step_scale, jax.grad(digest)(y, t), y)

        def move(t: ArrayLike, y: PyTree, rows: PyTree) -> PyTree:
            return trees.axpy(-local.step(t) * spec.step_scale, gradient(y, rows), y)

        y = jax.lax.fori_loop(0, turn.steps, step, y)
        y = walk(move, y, view, turn.steps, key, batch=local.batch, augment=local.augment)
        return y, says(model, y, view, turn)

    return Learner(lambda x, spec: x, learn)
