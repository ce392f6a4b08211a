"""The server's half of FedDF: a net learns what its teachers say together of the rows that are shown."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import trees
from ...federation import shown_rows
from ...problem import Model
from ..descent import Descent, ServerDescent
from ..method import Round
from .consensus import consensus
from .divergences import divergence_of, mean_over_said
from .learners import Said, outputs_at


class Moved(NamedTuple):
    delta: PyTree  # y_i - x_r [n]
    moved: Bool[Array, ""]  # has it made a step? One that has not is no teacher


class Info(NamedTuple):
    step: Float[Array, ""]  # |x after the distillation - x before|


def distilled(model: Model, server: ServerDescent, rows: int, x: PyTree, ups: Said, round: Round) -> tuple[PyTree, Info]:
    """x after the server's steps on mean_u KL(softmax(z_u) || softmax(x's outputs)), z the mean of what the clients that
    arrived say of row u; x itself where nobody says anything."""
    shown, apart = shown_rows(round.view, rows), divergence_of("kl")
    z, any_said = consensus(ups, round.arrived, jnp.zeros(ups.outputs.shape[1:]))
    said = jnp.any(ups.said & round.arrived[:, None], axis=0)

    def loss(x: PyTree) -> Float[Array, ""]:
        return mean_over_said(apart(z, outputs_at(model, x, shown)), said)

    def nothing(x: PyTree, rows: PyTree) -> Float[Array, ""]:
        return jnp.zeros(())

    start = Descent(x, server.init(x).memory, ())
    after = server.step(nothing, start, jax.grad(loss), round.view, round.round, round.key)
    end = trees.where(any_said, after.x, x)
    return end, Info(trees.norm(trees.sub(end, x)))


def taught_by(model: Model, x: PyTree, ups: Moved, rows: int, round: Round) -> tuple[PyTree, Said]:
    """(the moves of the clients that arrived, 0 of the others; what the models x + move say of the rows that are shown)."""
    shown, arrived = shown_rows(round.view, rows), round.arrived & ups.moved
    delta = trees.map(lambda a: jnp.where(arrived.reshape(-1, *[1] * (a.ndim - 1)), a, 0), ups.delta)
    outputs = jax.vmap(lambda d: outputs_at(model, trees.add(x, d), shown))(delta)
    return delta, Said(outputs, shown.known[None] & arrived[:, None])
