"""The server's descent on f1 plus the estimate of the coupling's gradient.

    x <- x + update of the optimiser for (grad f1(x, minibatch_k) + g(x))          `steps` times a round

g(x), the clients' pull, acts in all steps of a round. That keeps the balance of f1 and f2, hence the stationary points: with g
in the first step only, more steps would silently scale f2 down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import NOTHING, FedtierError, not_negative, require, whole
from ..federation import View, gradient_over_rows
from ..keys import Tag
from ..problem import Augment
from ..schedules import Schedule, StepSize, as_schedule, constant
from .outline import is_outlined
from .solvers import minibatch


class Descent(NamedTuple):
    """The server's state: its model, the memory of its optimiser, and the average of its models."""

    x: PyTree
    memory: PyTree
    average: PyTree  # () when averaging is off


class ServerDescent(NamedTuple):
    """How the server moves: `descent` makes one."""

    optimiser: optax.GradientTransformationExtraArgs  # complete: x + update descends; may ask for round=
    steps: int
    batch: int
    averaging: int
    trust: float
    augment: Augment | None = None  # what steps see in place of the stored rows

    def init(self, x: PyTree) -> Descent:
        _refuse_ascent(self.optimiser, x)
        return Descent(x, self.optimiser.init(x), x if self.averaging else ())

    def step(
        self,
        loss: Callable[..., Array],
        server: Descent,
        pull: Callable[[PyTree], PyTree],
        view: View,
        round: ArrayLike,
        key: Key[Array, ""],
    ) -> Descent:
        """The state after the steps of one round; `loss(x, rows)` is f1, `pull(x)` is g(x), `view` the server's rows."""

        def once(k: ArrayLike, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            x, memory = carry
            own = gradient_over_rows(loss, x, self.sample(view, keys.at(key, Tag.SERVER, k)))
            g = _shortened(pull(x), self.trust * trees.norm(own)) if self.trust else pull(x)
            update, memory = self.optimiser.update(trees.add(own, g), memory, x, round=round)  # Alg. 1, line 9
            return trees.add(x, update), memory

        start = (server.x, server.memory)
        x, memory = once(jnp.asarray(0), start) if self.steps == 1 else jax.lax.fori_loop(0, self.steps, once, start)
        if not self.averaging:
            return Descent(x, memory, ())
        share = (self.averaging + 1.0) / (round + self.averaging + 1.0)
        return Descent(x, memory, trees.axpy(share, trees.sub(x, server.average), server.average))

    def sample(self, view: View, key: Key[Array, ""]) -> PyTree:
        """A minibatch as a step sees it."""
        return minibatch(view, key, self.batch, self.augment)

    def model(self, server: Descent) -> PyTree:
        return server.average if self.averaging else server.x


def descent(
    optimiser: StepSize | optax.GradientTransformation,
    *,
    steps: int = 1,
    batch: int = 128,
    averaging: int = 0,
    trust: float = 0.0,
) -> ServerDescent:
    """The server's descent.

    optimiser  a step size for plain gradient descent: a number is constant, "inverse_sqrt(0.01)" is 0.01/sqrt(r + 1), any
               function gets the round r. Or a complete optax optimiser, such as optax.adam(3e-3): one that includes -lr, so
               that x + update descends; a schedule inside it counts the server's steps. A bare transformation, such as
               optax.scale_by_adam(), is refused: `by_round` completes it
    steps      steps a round, each on a minibatch of `batch` rows of the server
    averaging  s > 0: the model is a running average that gives x_r a weight growing like r^s, so it forgets the start
               (Shamir, Zhang, 2013); 0: the last x
    trust      t > 0: g is shortened to at most t times the length of the gradient of f1, an adaptive penalty that
               tames a large one; t >= 1 keeps the stationary points, where both have the same length
    """
    whole("steps", steps)
    whole("batch", batch)
    whole("averaging", averaging, 0)
    not_negative("trust", trust)
    if isinstance(optimiser, optax.GradientTransformation):
        return ServerDescent(optax.with_extra_args_support(optimiser), steps, batch, averaging, trust)
    step = as_schedule("optimiser", optimiser, constant)
    return ServerDescent(by_round(optax.identity(), step), steps, batch, averaging, trust)


def by_round(transform: optax.GradientTransformation, step: StepSize) -> optax.GradientTransformationExtraArgs:
    """A complete optimiser: -step(r) times what `transform` makes of the gradient, r the round."""
    size: Schedule = as_schedule("step", step, constant)
    inner = optax.with_extra_args_support(transform)

    def update(
        gradient: PyTree, memory: PyTree, x: PyTree = None, *, round: ArrayLike, **more: PyTree
    ) -> tuple[PyTree, PyTree]:
        direction, memory = inner.update(gradient, memory, x, **more)
        return trees.scale(-size(round), direction), memory

    return optax.GradientTransformationExtraArgs(inner.init, update)  # pyright: ignore[reportArgumentType]  our names for theirs


def _shortened(g: PyTree, limit: ArrayLike) -> PyTree:
    length = trees.norm(g)
    return trees.scale(jnp.where(length > limit, limit / jnp.where(length > 0, length, 1.0), 1.0), g)


def _refuse_ascent(optimiser: optax.GradientTransformationExtraArgs, x: PyTree) -> None:
    """Tries the first step on a gradient of ones: it must not point along it."""
    if is_outlined():
        return

    def first() -> Float[Array, ""]:
        zeros, ones = (trees.map(lambda a, c=c: jnp.full(a.shape, c, a.dtype), x) for c in (0, 1))
        update, _ = optimiser.update(ones, optimiser.init(zeros), zeros, round=0)
        return trees.dot(update, ones)

    try:
        traced = jax.make_jaxpr(first)()
    except TypeError as error:
        rule = f"its optimiser asks for more than the gradient: {error}"
        raise FedtierError("server", NOTHING, rule, "use one without a line search, such as optax.adam(3e-3)") from error
    if any(isinstance(value, Tracer) for value in traced.consts):
        return  # the traced step of a search was checked by its name
    with jax.disable_jit(False):  # one program: op by op it takes dozens of compilations
        ascends = float(jax.jit(first).lower().compile()()) > 0
    hint = "descent(optax.adam(3e-3)), or descent(by_round(optax.scale_by_adam(), 3e-3))"
    require(not ascends, "server", NOTHING, "its optimiser climbs: a bare transformation does not include -lr", hint)
