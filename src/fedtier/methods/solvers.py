"""The loops: a client's projected SGD (Algorithm 2) and the server's descent. Written here once, for all methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from .. import keys, trees
from ..errors import FedtierError, choice, not_negative, whole
from ..federation import View, draw, rows_at, sample
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import Schedule, StepSize, as_schedule, constant, inverse, inverse_sqrt

AHEAD = 32  # minibatches drawn at once: to start a draw costs as much as 50 more numbers of it (docs/scaling.md)
STRETCH, SMALL = 16, 2**14  # on a GPU: steps in a loop of fixed length, for models of at most so many numbers


def sgd(
    gradient: Callable[[PyTree, PyTree], PyTree],
    y: PyTree,
    view: View,
    steps: Any,
    key: Key[Array, ""],
    *,
    lr: Schedule,
    batch: int,
    scale: Any = 1.0,
    project: Callable[[PyTree], PyTree] = lambda y: y,
) -> PyTree:
    """y <- project(y - scale lr(t) gradient(y, minibatch_t)) for t = 0 .. steps - 1.

    `steps` is traced: a growing H recompiles nothing, and 0 steps return `y` as it came. The row numbers of `ahead`
    minibatches are drawn at once, each at its own address (key, t): threefry is cheap by the dozen, dear one by one. A
    GPU is stopped and asked after every step of a loop whose length it does not know: for small models, which would wait
    more than they compute, loops have a fixed length there and are written out; steps beyond the last change nothing.
    """
    fixed = jax.default_backend() != "cpu" and trees.size(y) <= SMALL  # docs/speed.md
    ahead = STRETCH if fixed else AHEAD

    def stretch(k: Any, y: PyTree) -> PyTree:
        first = k * ahead
        drawn = jax.vmap(lambda t: draw(view, keys.at(key, t), batch))(first + jnp.arange(ahead))

        def step(t: Any, y: PyTree) -> PyTree:
            rows = rows_at(view, drawn[t - first])
            return project(trees.axpy(-scale * lr(t), gradient(y, rows), y))

        def masked(j: Any, y: PyTree) -> PyTree:
            return trees.where(first + j < steps, step(first + j, y), y)

        if fixed:
            return jax.lax.fori_loop(0, ahead, masked, y, unroll=ahead)
        return jax.lax.fori_loop(first, jnp.minimum(first + ahead, steps), step, y)

    return jax.lax.fori_loop(0, (steps + ahead - 1) // ahead, stretch, y)


LowerLevel = Callable[..., PyTree]


def lower_level(problem: Bilevel, *, client_lr: StepSize = 0.1, batch: int = 32) -> LowerLevel:
    """Algorithm 2 as a function: solve(x, start, view, spec, steps, key) -> an approximation of y_i(x).

    The start is projected first, so that the answer is feasible even after 0 steps. Error: O(1/steps) in the squared
    distance for lr = c/(t + offset) with c > 1/(2 mu_h) (Proposition 1).
    """
    lr = client_schedule(client_lr)
    whole("batch", batch)
    gradient = jax.grad(problem.h, argnums=1)

    def solve(x: PyTree, start: PyTree, view: View, spec: Any, steps: Any, key: Key[Array, ""]) -> PyTree:
        def project(y: PyTree) -> PyTree:
            return problem.Y.project(y, x, spec)

        if problem.solve is not None:
            return project(problem.solve(x, project(start), view, spec, steps, key))
        return sgd(
            lambda y, rows: gradient(x, y, rows, spec), project(start), view, steps, key,
            lr=lr, batch=batch, scale=spec.step_scale, project=project,
        )  # fmt: skip

    return solve


class Descent(NamedTuple):
    """The server's state: its model, the memory of its optimiser, and the average of its models."""

    x: PyTree
    memory: Any
    average: Any  # () when averaging is off


def descent(
    loss: Callable[..., Any],
    *,
    server_lr: StepSize,
    server_batch: int,
    server_steps: int,
    server_step: str | optax.GradientTransformation,
    averaging: int = 0,
    trust: float = 0.0,
) -> tuple[Callable[[PyTree], Descent], Callable[..., Descent], Callable[[Descent], PyTree]]:
    """(init, step, model) of x <- x - gamma_r T(grad loss(x, minibatch_k) + g), `server_steps` times a round.

    g is the estimate of the coupling's gradient, the same in all steps of a round. Holding it fixed keeps the balance
    of f1 and f2, hence the stationary points: with g in the first step only, more steps would silently scale f2 down.

    averaging  s > 0: the model is a running average that gives x_r a weight growing like r^s, so it forgets the start
               (Shamir, Zhang, 2013); 0: the last x
    trust      t > 0: g is shortened to at most t times the length of the gradient of f1, an adaptive penalty that
               tames a large one; t >= 1 keeps the stationary points, where both have the same length
    """
    lr = as_schedule("server_lr", server_lr, inverse_sqrt)
    whole("server_batch", server_batch)
    whole("server_steps", server_steps)
    whole("averaging", averaging, 0)
    not_negative("trust", trust)
    transform = server_transform(server_step)

    def init(x: PyTree) -> Descent:
        return Descent(x, transform.init(x), x if averaging else ())

    def step(server: Descent, g: PyTree, view: View, count: Any, key: Key[Array, ""]) -> Descent:
        def once(k: Any, carry: tuple[PyTree, Any]) -> tuple[PyTree, Any]:
            x, memory = carry
            rows = sample(view, keys.at(key, Tag.SERVER, k), server_batch)
            own = jax.grad(loss)(x, rows)
            pull = _shortened(g, trust * trees.norm(own)) if trust else g
            update, memory = transform.update(trees.add(own, pull), memory, x)  # Alg. 1, line 9
            return trees.axpy(-lr(count), update, x), memory

        start = (server.x, server.memory)
        x, memory = once(jnp.asarray(0), start) if server_steps == 1 else jax.lax.fori_loop(0, server_steps, once, start)
        if not averaging:
            return Descent(x, memory, ())
        share = (averaging + 1.0) / (count + averaging + 1.0)
        return Descent(x, memory, trees.axpy(share, trees.sub(x, server.average), server.average))

    return init, step, lambda server: server.average if averaging else server.x


def _shortened(g: PyTree, limit: Any) -> PyTree:
    length = trees.norm(g)
    return trees.scale(jnp.where(length > limit, limit / jnp.where(length > 0, length, 1.0), 1.0), g)


def client_schedule(client_lr: StepSize) -> Schedule:
    """A client's step sizes: a plain number c means c/(t + 1), the paper's choice."""
    return as_schedule("client_lr", client_lr, inverse)


TRANSFORMS = {"sgd": optax.identity, "momentum": lambda: optax.trace(0.9), "adam": optax.scale_by_adam}


def server_transform(step: str | optax.GradientTransformation) -> optax.GradientTransformation:
    """T above: any optax transformation of the gradient, or a name. The step size is applied after it."""
    if isinstance(step, str):
        choice("server_step", step, TRANSFORMS)
        return TRANSFORMS[step]()
    if not hasattr(step, "update"):
        raise FedtierError("server_step", step, "must be a name or an optax transformation", f"names: {', '.join(TRANSFORMS)}")
    return step


def pretrain(
    loss: Callable[..., Any], x: PyTree, view: View, key: Key[Array, ""], *, steps: int, lr: float, batch: int
) -> PyTree:
    """x_0 after `steps` of SGD with constant step `lr` on the server's own data. Works for any method."""
    key = keys.at(key, keys.BEFORE_ROUND_0, Tag.PRETRAIN)
    return sgd(jax.grad(loss), x, view, steps, key, lr=constant(lr), batch=batch)
