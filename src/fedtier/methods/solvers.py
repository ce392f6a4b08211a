"""A client's loop: projected SGD (Algorithm 2). Written here once, for all methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import not_negative, share, whole
from ..federation import View, draw, rows_at, sample
from ..keys import Tag
from ..problem import Augment, Bilevel
from ..schedules import Schedule, StepSize, as_schedule, constant
from .method import ClientSpec
from .outline import is_outlined
from .private_rows import RowNoise, noisy_gradient

AHEAD = 32  # minibatches drawn at once: to start a draw costs as much as 50 more numbers of it (docs/scaling.md)
STRETCH, SMALL = 16, 2**14  # on a GPU: steps in a loop of fixed length, for models of at most so many numbers

Gradient = Callable[[PyTree, PyTree], PyTree]  # (y, rows) -> a tree like y
Move = Callable[[ArrayLike, PyTree, PyTree], PyTree]  # (t, y, rows) -> y after step t


class Moving(NamedTuple):
    """Where a solve is."""

    y: PyTree
    m: PyTree  # the momentum; () where there is none


def sgd(
    gradient: Gradient,
    y: PyTree,
    view: View,
    steps: ArrayLike,
    key: Key[Array, ""],
    *,
    lr: Schedule,
    batch: int,
    scale: ArrayLike = 1.0,
    project: Callable[[PyTree], PyTree] = lambda y: y,
    momentum: float = 0.0,
    augment: Augment | None = None,
) -> PyTree:
    """y <- project(y - scale lr(t) gradient(y, minibatch_t)) for t = 0 .. steps - 1. `augment` as in `walk`.

    With `momentum` rho (heavy ball) the step is along m <- rho m + gradient(y, minibatch_t), which starts at 0 in every call.
    """

    def move(t: ArrayLike, at: Moving, rows: PyTree) -> Moving:
        size, along = -jnp.asarray(scale) * lr(t), gradient(at.y, rows)
        if momentum:
            along = trees.axpy(momentum, at.m, along)
        return Moving(project(trees.axpy(size, along, at.y)), along if momentum else ())

    start = Moving(y, trees.zeros_like(y) if momentum else ())
    return walk(move, start, view, steps, key, batch=batch, augment=augment).y


def walk(
    move: Move,
    y: PyTree,
    view: View,
    steps: ArrayLike,
    key: Key[Array, ""],
    *,
    batch: int,
    augment: Augment | None = None,
) -> PyTree:
    """y <- move(t, y, minibatch_t) for t = 0 .. steps - 1. With `augment`, minibatch t is changed by it at the address
    (key, t, AUGMENT).

    `steps` is traced: a growing H recompiles nothing, and 0 steps return `y` as it came. The row numbers of `ahead`
    minibatches are drawn at once, each at its own address (key, t): threefry is cheap by the dozen, dear one by one. A
    GPU is stopped and asked after every step of a loop whose length it does not know: for small models, which would wait
    more than they compute, loops have a fixed length there and are written out; steps beyond the last change nothing.
    """
    if is_outlined():
        return trees.zeros_like(y)
    steps = jnp.asarray(steps)
    fixed = jax.default_backend() != "cpu" and trees.size(y) <= SMALL  # docs/speed.md
    ahead = STRETCH if fixed else AHEAD

    def stretch(k: ArrayLike, y: PyTree) -> PyTree:
        first = jnp.asarray(k) * ahead
        drawn = jax.vmap(lambda t: draw(view, keys.at(key, t), batch))(first + jnp.arange(ahead))

        def step(t: ArrayLike, y: PyTree) -> PyTree:
            rows = rows_at(view, drawn[jnp.asarray(t) - first])
            return move(t, y, rows if augment is None else augment(rows, keys.at(key, t, Tag.AUGMENT)))

        def masked(j: ArrayLike, y: PyTree) -> PyTree:
            t = first + jnp.asarray(j)
            return trees.where(t < steps, step(t, y), y)

        if fixed:
            return jax.lax.fori_loop(0, ahead, masked, y, unroll=ahead)
        return jax.lax.fori_loop(first, jnp.minimum(first + ahead, steps), step, y)

    return jax.lax.fori_loop(0, (steps + ahead - 1) // ahead, stretch, y)


def minibatch(view: View, key: Key[Array, ""], batch: int, augment: Augment | None) -> PyTree:
    """Rows of `view` as a step sees them that draws its own: with `augment`, changed by it at the address (key, AUGMENT)."""
    rows = sample(view, key, batch)
    return rows if augment is None else augment(rows, keys.at(key, Tag.AUGMENT))


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
    bounded: bool = False  # are steps shortened where the loss is too curved for them?
    momentum: float = 0.0  # rho of the heavy ball, which starts at rest in every solve
    weight_decay: ArrayLike = 0.0  # times y, added to every gradient
    augment: Augment | None = None  # what steps see in place of the stored rows
    private: RowNoise | None = None  # are gradients clipped row by row, with noise?

    def descend(
        self,
        gradient: Gradient,
        y: PyTree,
        view: View,
        spec: ClientSpec,
        steps: ArrayLike,
        key: Key[Array, ""],
        project: Callable[[PyTree], PyTree] = lambda y: y,
        factor: ArrayLike = 1.0,
    ) -> PyTree:
        """y after `steps` steps along -gradient(y, rows), each of size factor spec.step_scale tilde_gamma_t."""
        scale, slope = spec.step_scale * jnp.asarray(factor), self._decayed(gradient)
        if self.private is not None:
            return self._noisily(slope, y, view, steps, key, scale, project, self.private)
        return sgd(
            slope, y, view, steps, key, lr=self.step, batch=self.batch, scale=scale, project=project, momentum=self.momentum,
            augment=self.augment,
        )  # fmt: skip

    def _noisily(
        self, gradient: Gradient, y: PyTree, view: View, steps: ArrayLike, key: Key[Array, ""], scale: ArrayLike,
        project: Callable[[PyTree], PyTree], how: RowNoise,
    ) -> PyTree:  # fmt: skip
        """`sgd` with gradients of its own: every row by its own coin, clipped, with noise."""

        def step(t: ArrayLike, at: Moving) -> Moving:
            along = noisy_gradient(gradient, at.y, view, keys.at(key, t), self.batch, how)
            along = trees.axpy(self.momentum, at.m, along) if self.momentum else along
            return Moving(project(trees.axpy(-jnp.asarray(scale) * self.step(t), along, at.y)), along if self.momentum else ())

        return jax.lax.fori_loop(0, steps, step, Moving(y, trees.zeros_like(y) if self.momentum else ())).y

    def sample(self, view: View, key: Key[Array, ""]) -> PyTree:
        """A minibatch as a step sees it, for methods whose steps are not along a gradient."""
        return minibatch(view, key, self.batch, self.augment)

    def path(self, spec: ClientSpec, steps: ArrayLike, proximity: ArrayLike = 0.0) -> Float[Array, ""]:
        """A = sum_t A_t where `descend` goes from x to x - sum_t A_t gradient_t: how much gradient a solve adds up.

        Without momentum, A_t is the step size. With it a gradient acts in all later steps too, and a pull of
        proximity (y - x) beside the gradient takes back a part of what was gained. A is what constant gradients of 1 add up to.
        Weight decay counts as a part of the gradient.
        """
        if not self.momentum and isinstance(proximity, float | int) and proximity == 0:
            return spec.step_scale * jax.lax.fori_loop(0, steps, lambda t, total: total + self.step(t), jnp.zeros(()))

        def add(t: ArrayLike, at: Moving) -> Moving:
            m = self.momentum * at.m + 1.0 - proximity * at.y
            return Moving(at.y + spec.step_scale * self.step(t) * m, m)

        return jax.lax.fori_loop(0, steps, add, Moving(jnp.zeros(()), jnp.zeros(()))).y

    @property
    def decays(self) -> bool:
        """Has it weight decay? A number that a search traces counts as one that is not 0."""
        return isinstance(self.weight_decay, Tracer) or bool(self.weight_decay)

    def _decayed(self, gradient: Gradient) -> Gradient:
        if not self.decays:
            return gradient
        return lambda y, rows: trees.axpy(jnp.asarray(self.weight_decay), y, gradient(y, rows))

    def with_decay_in(self, problem: Bilevel) -> tuple[Bilevel, ProjectedSgd]:
        """The problem with weight decay as a part of h, and the solver without it: what is derived from h then knows of it."""
        if not self.decays:
            return problem, self

        def h(x: PyTree, y: PyTree, rows: PyTree, spec: ClientSpec) -> Float[Array, ""]:
            return problem.h(x, y, rows, spec) + 0.5 * self.weight_decay * trees.dot(y, y)

        return problem._replace(h=h), self._replace(weight_decay=0.0)

    def lower_level(self, problem: Bilevel) -> LowerLevel:
        """Algorithm 2 on h, or the problem's own solver where it has one.

        The start is projected first, so that the answer is feasible even after 0 steps. Error: O(1/steps) in the squared
        distance for a step c/(t + offset) with c > 1/(2 mu_h) (Proposition 1).
        """
        solve = self.solver(problem)

        def lower_level(
            x: PyTree, start: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]
        ) -> PyTree:
            return solve(x, start, view, spec, steps, key, self.factor(problem, x, start, view, spec, key))

        return lower_level

    def solver(self, problem: Bilevel) -> Callable[..., PyTree]:
        """`lower_level` with one more argument, the factor on its steps: for solves that are compared with each other."""
        gradient = jax.grad(problem.h, argnums=1)

        def solve(
            x: PyTree, start: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""], factor: ArrayLike
        ) -> PyTree:
            def project(y: PyTree) -> PyTree:
                return problem.Y.project(y, x, spec)

            if problem.solve is not None:
                return project(problem.solve(x, project(start), view, spec, jnp.asarray(steps), key))
            slope = lambda y, rows: gradient(x, y, rows, spec)  # noqa: E731
            return self.descend(slope, project(start), view, spec, steps, key, project, factor)

        return solve

    def factor(
        self, problem: Bilevel, x: PyTree, start: PyTree, view: View, spec: ClientSpec, key: Key[Array, ""]
    ) -> ArrayLike:
        """By which all steps of a solve of h from `start` are to be shortened; 1 where they are not bounded."""
        if not self.bounded or problem.solve is not None:
            return 1.0
        gradient, first = jax.grad(problem.h, argnums=1), spec.step_scale * self.step(0)
        rows = sample(view, keys.at(key, 0), self.batch)
        slope = self._decayed(lambda y, rows: gradient(x, y, rows, spec))
        return _factor(lambda y: slope(y, rows), problem.Y.project(start, x, spec), first)


def _factor(gradient: Callable[[PyTree], PyTree], y: PyTree, first: ArrayLike) -> Float[Array, ""]:
    """min(1, 1/(first L)), L = |gradient(y') - gradient(y)| / |y' - y| the curvature along the first step, to y'.

    Not a number where L is not finite: such a client has no answer, and its reply is lost.
    """

    def look(_: ArrayLike, seen: tuple[PyTree, PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
        there, _, last = seen
        slope = gradient(there)
        return trees.axpy(-jnp.asarray(first), slope, there), last, slope

    blank = trees.zeros_like(y)
    _, before, after = jax.lax.fori_loop(0, 2, look, (y, blank, blank))  # a loop: the gradient is compiled once
    bend, length = trees.norm(trees.sub(after, before)), trees.norm(before)  # first L = bend / length
    shorter = jnp.where(bend > length, length / jnp.where(bend > length, bend, 1.0), 1.0)
    return jnp.where(jnp.isfinite(bend), shorter, jnp.nan)


def projected_sgd(
    step: StepSize, *, batch: int = 32, bounded: bool = False, momentum: float = 0.0, weight_decay: ArrayLike = 0.0
) -> ProjectedSgd:
    """SGD with minibatches of `batch` rows drawn with replacement, projected on Y after every step.

    step          a number is a constant step; "inverse(0.1)", the paper's, is 0.1/(t + 1); or any function of the step t
                  of a solve
    bounded       all steps of a solve are shortened by one factor, so that the first is at most 1/L: a longer step than 2/L
                  leads away from the minimum, and how curved a net is where a client starts is not known before. L is
                  measured along the first step with its own minibatch, for two gradients a solve
    momentum      rho in [0, 1): m <- rho m + gradient, y <- y - step m, from m = 0 in every solve (heavy ball, without
                  dampening)
    weight_decay  w >= 0: w y is added to the gradient, before the momentum
    """
    whole("batch", batch)
    share("momentum", momentum)
    not_negative("weight_decay", weight_decay)
    return ProjectedSgd(as_schedule("step", step, constant), batch, bounded, momentum, weight_decay)


def pretrain(
    loss: Callable[..., Array], x: PyTree, view: View, key: Key[Array, ""], *, steps: int, lr: float, batch: int
) -> PyTree:
    """x_0 after `steps` of SGD with constant step `lr` on the server's own data. Works for any method."""
    key = keys.at(key, keys.BEFORE_ROUND_0, Tag.PRETRAIN)
    return sgd(jax.grad(loss), x, view, steps, key, lr=constant(lr), batch=batch)
