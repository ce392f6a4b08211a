"""From what clients say to a gradient in the server's outputs: the server's half of `codistil`'s estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from ... import keys, trees
from ..method import ClientSpec
from .divergences import Divergence, Outputs, mean_over_said
from .learners import Said


class Predictions(NamedTuple):
    said: Said  # [P, C] and [P]
    rest: Float[Array, ""] | tuple[()]  # guided: what first_order lacks along v


class Values(NamedTuple):
    plus: Float[Array, "K"]  # f2 at z + eta v_k, with the solution there
    minus: Float[Array, "K"]


class Coupling(NamedTuple):
    """f2 in prediction space."""

    divergence: Divergence
    agreement: float | Float[Array, ""]  # lambda

    def value(self, said: Said, z: Outputs, spec: ClientSpec) -> Float[Array, ""]:
        """lambda w_i mean D(what client i says, z) over the rows of which it says something."""
        return jnp.asarray(self.agreement * spec.weight) * mean_over_said(self.divergence(said.outputs, z), said.said)


def direction(key: Key[Array, ""], z: Outputs, known: Bool[Array, "P"]) -> Outputs:
    """v: uniform on the unit sphere of the outputs on the rows that there are."""
    v = jnp.where(known[:, None], jax.random.normal(key, z.shape, z.dtype), 0.0)
    return v / jnp.linalg.norm(v)


def away(z: Outputs, said: Said) -> Outputs:
    """v = z - z_i, normalised, on the rows of which client i says something; 0 where they agree."""
    v = jnp.where(said.said[:, None], z - said.outputs, 0.0)
    length = jnp.linalg.norm(v)
    return v / jnp.where(length > 0, length, 1.0)


def root_of_size(known: Bool[Array, "P"], z: Outputs) -> Float[Array, ""]:
    """sqrt(n), n the number of outputs: the length of a step that moves each of them by 1."""
    return jnp.sqrt(jnp.sum(known) * z.shape[1])


def total(
    coupling: Coupling, ups: Predictions | Values, owns: PyTree, z: Outputs, known: Bool[Array, "P"], specs: PyTree,
    arrived: Bool[Array, "S"], smoothing: float,
) -> Callable[[Outputs], Outputs]:  # fmt: skip
    """The mean of g_i over the replies that arrived, as a function of the server's outputs while it moves within the round;
    `z` are those that the clients had."""
    if isinstance(ups, Values):
        fixed = trees.mean_over(arrived, jax.vmap(lambda own, up: _sphere(own.key, up, z, known, smoothing))(owns, ups))
        return lambda outputs: fixed
    kept = Said(jnp.where(arrived[:, None, None], ups.said.outputs, 0.0), ups.said.said & arrived[:, None])

    def f2(outputs: Outputs) -> Float[Array, ""]:
        values = jax.vmap(lambda said, spec: coupling.value(said, outputs, spec))(kept, specs)
        return trees.mean_over(arrived, values)

    if isinstance(ups.rest, tuple):
        return jax.grad(f2)
    rest = jnp.where(arrived, ups.rest, 0.0)
    along = trees.mean_over(arrived, jax.vmap(lambda said, c: c * away(z, said))(kept, rest))
    return lambda outputs: jax.grad(f2)(outputs) + along


def _sphere(key: Key[Array, ""], up: Values, z: Outputs, known: Bool[Array, "P"], smoothing: float) -> Outputs:
    """n/K sum_k (f2+ - f2-)/(2 eta) v_k with eta = smoothing sqrt(n)."""
    K, root = up.plus.shape[0], root_of_size(known, z)
    slopes = (up.plus - up.minus) / (2.0 * smoothing * root)
    v = jax.vmap(lambda k: direction(keys.at(key, k), z, known))(jnp.arange(K))
    return root**2 / K * jnp.tensordot(slopes, v, axes=1)
