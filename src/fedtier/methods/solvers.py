"""A client's loop: projected SGD (Algorithm 2). Written here once, for all methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Key, PyTree

from .. import keys, trees
from ..errors import whole
from ..federation import View, draw, rows_at
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import Schedule, StepSize, as_schedule, constant
from .method import ClientSpec

AHEAD = 32  # minibatches drawn at once: to start a draw costs as much as 50 more numbers of it (docs/scaling.md)
STRETCH, SMALL = 16, 2**14  # on a GPU: steps in a loop of fixed length, for models of at most so many numbers


def sgd(
    gradient: Callable[[PyTree, PyTree], PyTree],
    y: PyTree,
    view: View,
    steps: ArrayLike,
    key: Key[Array, ""],
    *,
    lr: Schedule,
    batch: int,
    scale: ArrayLike = 1.0,
    project: Callable[[PyTree], PyTree] = lambda y: y,
) -> PyTree:
    """y <- project(y - scale lr(t) gradient(y, minibatch_t)) for t = 0 .. steps - 1.

    `steps` is traced: a growing H recompiles nothing, and 0 steps return `y` as it came. The row numbers of `ahead`
    minibatches are drawn at once, each at its own address (key, t): threefry is cheap by the dozen, dear one by one. A
    GPU is stopped and asked after every step of a loop whose length it does not know: for small models, which would wait
    more than they compute, loops have a fixed length there and are written out; steps beyond the last change nothing.
    """
    steps = jnp.asarray(steps)
    fixed = jax.default_backend() != "cpu" and trees.size(y) <= SMALL  # docs/speed.md
    ahead = STRETCH if fixed else AHEAD

    def stretch(k: ArrayLike, y: PyTree) -> PyTree:
        first = jnp.asarray(k) * ahead
        drawn = jax.vmap(lambda t: draw(view, keys.at(key, t), batch))(first + jnp.arange(ahead))

        def step(t: ArrayLike, y: PyTree) -> PyTree:
            rows = rows_at(view, drawn[jnp.asarray(t) - first])
            return project(trees.axpy(-jnp.asarray(scale) * lr(t), gradient(y, rows), y))

        def masked(j: ArrayLike, y: PyTree) -> PyTree:
            t = first + jnp.asarray(j)
            return trees.where(t < steps, step(t, y), y)

        if fixed:
            return jax.lax.fori_loop(0, ahead, masked, y, unroll=ahead)
        return jax.lax.fori_loop(first, jnp.minimum(first + ahead, steps), step, y)

    return jax.lax.fori_loop(0, (steps + ahead - 1) // ahead, stretch, y)


@runtime_checkable
class LowerLevel(Protocol):
    """A solver of a client's lower level."""

    def __call__(
        self, x: PyTree, start: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""], /
    ) -> PyTree:
        """An approximation of y_i(x), inside Y_i(x), after `steps` local steps from `start` on the client's rows."""
        ...


class ProjectedSgd(NamedTuple):
    """A client's local solver: `projected_sgd` makes one."""

    step: Schedule  # tilde_gamma_t, of the step t of a solve
    batch: int

    def descend(
        self,
        gradient: Callable[[PyTree, PyTree], PyTree],
        y: PyTree,
        view: View,
        spec: ClientSpec,
        steps: ArrayLike,
        key: Key[Array, ""],
        project: Callable[[PyTree], PyTree] = lambda y: y,
    ) -> PyTree:
        """y after `steps` steps along -gradient(y, rows), each of size spec.step_scale tilde_gamma_t."""
        return sgd(gradient, y, view, steps, key, lr=self.step, batch=self.batch, scale=spec.step_scale, project=project)

    def lower_level(self, problem: Bilevel) -> LowerLevel:
        """Algorithm 2 on h, or the problem's own solver where it has one.

        The start is projected first, so that the answer is feasible even after 0 steps. Error: O(1/steps) in the squared
        distance for a step c/(t + offset) with c > 1/(2 mu_h) (Proposition 1).
        """
        gradient = jax.grad(problem.h, argnums=1)

        def solve(x: PyTree, start: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]) -> PyTree:
            def project(y: PyTree) -> PyTree:
                return problem.Y.project(y, x, spec)

            if problem.solve is not None:
                return project(problem.solve(x, project(start), view, spec, jnp.asarray(steps), key))
            return self.descend(lambda y, rows: gradient(x, y, rows, spec), project(start), view, spec, steps, key, project)

        return solve


def projected_sgd(step: StepSize, *, batch: int = 32) -> ProjectedSgd:
    """SGD with minibatches of `batch` rows drawn with replacement, projected on Y after every step.

    step   a number is a constant step; "inverse(0.1)", the paper's, is 0.1/(t + 1); or any function of the step t of a solve
    """
    whole("batch", batch)
    return ProjectedSgd(as_schedule("step", step, constant), batch)


def pretrain(
    loss: Callable[..., Array], x: PyTree, view: View, key: Key[Array, ""], *, steps: int, lr: float, batch: int
) -> PyTree:
    """x_0 after `steps` of SGD with constant step `lr` on the server's own data. Works for any method."""
    key = keys.at(key, keys.BEFORE_ROUND_0, Tag.PRETRAIN)
    return sgd(jax.grad(loss), x, view, steps, key, lr=constant(lr), batch=batch)
