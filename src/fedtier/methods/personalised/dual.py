"""Stochastic dual coordinate ascent on one client's rows, for models that are linear in their parameters.

    max over delta of  -(1/N) sum_j l*(-(alpha_j + delta_j)) - <w, db> - (q/2) |db|^2        db = (1/N) sum_j delta_j u_j

Row j with the input u_j has a dual variable for each output. The best delta_j with all others held, at z = <w + q db, u_j>:

    hinge, y = 1 or -1    alpha <- y clip_[0,1](y alpha + (1 - y z) N/(q |u_j|^2))
    squared, y a number   alpha <- alpha + (y - z - alpha)/(1 + q |u_j|^2/N)

A step goes over the rows of a minibatch one after the other. Their products with each other are formed first, so that what
is done row by row has the size of the minibatch, not that of the model; a row that was drawn twice counts twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key

from ... import trees
from ...errors import require
from ...federation import View, rows_at
from ...problem import Model, Rows
from ...problem.models import Inputs, Linear
from ..solvers import walk

LOSSES = ("auto", "hinge", "squared")  # auto: hinge for classes, squared for numbers
LEAST = 1e-12  # a row of zeros has no length to divide by


class Ascent(NamedTuple):
    """Where a client is."""

    alpha: Float[Array, "M K"]
    db: Linear  # what alpha has gained in this round, as a move of the model [n]


def ascended(
    model: Model, loss: str, alpha: Float[Array, "M K"], w: Linear, q: ArrayLike, view: View, steps: ArrayLike,
    key: Key[Array, ""], *, batch: int,
) -> Ascent:  # fmt: skip
    """`alpha` after `steps` steps, and their db. Rows of `view` that have no place in alpha are not used."""
    size, everything = jnp.minimum(view.size, alpha.shape[0]), jnp.arange(view.index.shape[0])
    count = jnp.maximum(size, 1).astype(alpha.dtype)

    def move(t: ArrayLike, at: Ascent, positions: Int[Array, "B"]) -> Ascent:
        rows, places = rows_at(view, view.index[positions]), positions - view.start
        z, back = jax.vjp(lambda v: model.apply(v, rows.inputs), trees.axpy(q, at.db, w))
        _check_outputs(model, z.shape[1], w)
        targets, best = _rule(loss, rows, z)
        near, same = q * _products(model, w, rows.inputs) / count, (places[:, None] == places[None]).astype(z.dtype)

        def one(j: Int[Array, ""], delta: Float[Array, "B K"]) -> Float[Array, "B K"]:
            now = at.alpha[places[j]] + same[j] @ delta
            return delta.at[j].set(best(targets[j], now, z[j] + near[j] @ delta, near[j, j]) - now)

        delta = jax.lax.fori_loop(0, batch, one, jnp.zeros_like(z))
        return Ascent(at.alpha.at[places].add(delta), trees.add(at.db, back(delta / count)[0]))

    window = view._replace(arrays=everything, index=everything, size=size)  # minibatches of positions, not of rows
    return walk(move, Ascent(alpha, trees.zeros_like(w)), window, jnp.where(size > 0, steps, 0), key, batch=batch)


def _rule(loss: str, rows: Rows, z: Float[Array, "B K"]) -> tuple[Float[Array, "B K"], Callable[..., Array]]:
    """(y of each row and output, the best alpha): for classes an output against the rest, by default with the hinge."""
    require(rows.weights is None, "weights", "given", "mocha counts the rows of a client alike", "leave the weights out")
    classes = jnp.issubdtype(rows.labels.dtype, jnp.integer)
    fits = classes or loss != "hinge"
    require(fits, "loss", loss, "is for classes, and these labels are numbers", 'loss = "squared", or "auto"')
    if classes:
        targets = 2.0 * jax.nn.one_hot(rows.labels, z.shape[1], dtype=z.dtype) - 1.0
    else:
        targets = jnp.broadcast_to(jnp.asarray(rows.labels, z.dtype)[:, None], z.shape)
    return targets, _hinge if classes and loss != "squared" else _squared


def _hinge(y: Array, alpha: Array, z: Array, near: Float[Array, ""]) -> Array:
    return y * jnp.clip(y * alpha + (1.0 - y * z) / jnp.maximum(near, LEAST), 0.0, 1.0)


def _squared(y: Array, alpha: Array, z: Array, near: Float[Array, ""]) -> Array:
    return alpha + (y - z - alpha) / (1.0 + near)


def _products(model: Model, w: Linear, inputs: Inputs) -> Float[Array, "B B"]:
    """<u_i, u_j> of the inputs as the model sees them, 1 for its intercept with them."""
    single = trees.map(lambda a: jnp.zeros_like(a[:1]), w)  # one output: its slope is u itself
    u = jax.vmap(lambda row: jax.grad(lambda v: model.apply(v, row[None])[0, 0])(single))(jnp.asarray(inputs))
    flat = (a.reshape(a.shape[0], -1) for a in jax.tree.leaves(u))
    return functools.reduce(jnp.add, [a @ a.T for a in flat])


def _check_outputs(model: Model, outputs: int, w: Linear) -> None:
    fits = outputs == w.weight.shape[0]
    require(fits, "model", model.name, "mocha needs weights of its own for every output", "softmax, or linear for numbers")
