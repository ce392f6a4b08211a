"""Steps that a few numbers describe: along directions that all parties draw for themselves from a round's seed.

Client and server make the same moves from the same numbers with the same arithmetic, hence to the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from ... import keys, trees
from ...federation import View
from ...problem import Loss
from ..method import ClientSpec
from ..private_rows import noisy_gradient
from ..solvers import Moving, ProjectedSgd
from .directions import Directions, Seed, directions, key_of

SMALL = 2**17  # numbers of a model


def model_of(x: PyTree) -> PyTree:
    """The model itself, without the momentum beside it."""
    return x.y if isinstance(x, Moving) else x


def at_once(x: PyTree) -> int | None:
    """Directions that are tried together: a GPU waits for small models, a CPU does not, and large ones take memory."""
    return 5 if jax.default_backend() != "cpu" and trees.size(x) <= SMALL else None


class Scalars(NamedTuple):
    """K steps of P directions each, from a model or, with momentum, from a model and the momentum beside it."""

    f: Loss
    steps: ProjectedSgd  # tilde_gamma_k
    K: int
    P: int
    mu: float | Float[Array, ""]
    probes: str

    def first(self, x: PyTree) -> PyTree:
        """Where x starts from: at rest."""
        return Moving(x, trees.zeros_like(x)) if self.steps.momentum else x

    def z(self, seed: Seed, k: ArrayLike, like: PyTree) -> Directions:
        """z_{k,1} .. z_{k,P}."""
        return directions(self.probes, keys.at(key_of(seed), k), like, self.P)

    def slope(self, y: PyTree, z: PyTree, rows: PyTree) -> Float[Array, ""]:
        """c_{k,p}: the slope of f at y along z, by a central difference."""
        return (self.f(trees.axpy(self.mu, z, y), rows) - self.f(trees.axpy(-self.mu, z, y), rows)) / (2.0 * self.mu)

    def slopes(self, y: PyTree, z: Directions, rows: PyTree) -> Float[Array, "P"]:
        """c_k: the slopes of f at y along z_{k,1} .. z_{k,P}."""
        return jax.lax.map(lambda p: self.slope(y, z(p), rows), jnp.arange(self.P), batch_size=at_once(y))

    def seen(self, y: PyTree, z: Directions, view: View, key: Key[Array, ""]) -> Float[Array, "P"]:
        """c_k on a minibatch. Under privacy of rows, as in DP-ZO (Tang et al. 2024, https://arxiv.org/abs/2401.04343), each
        row's P slopes are clipped as one vector, and their sum gets the noise: P numbers of it, however large the model is."""
        if self.steps.private is None:
            return self.slopes(y, z, self.steps.sample(view, key))
        return noisy_gradient(lambda y, rows: self.slopes(y, z, rows), y, view, key, self.steps.batch, self.steps.private)

    def measured(
        self, x: PyTree, seed: Seed, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]
    ) -> Float[Array, "K P"]:
        """c of a client that goes `steps` steps from x on its own rows, K at most; 0 for steps that it does not make."""

        def update(k: ArrayLike, made: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
            y, c = made
            at = model_of(y)
            here = jnp.asarray(spec.step_scale) * self.seen(at, self.z(seed, k, at), view, keys.at(key, k))
            return self.step(y, seed, k, here), c.at[k].set(here.astype(c.dtype))

        return jax.lax.fori_loop(0, jnp.minimum(steps, self.K), update, (x, jnp.zeros((self.K, self.P))))[1]

    def step(self, x: PyTree, seed: Seed, k: ArrayLike, c: Float[Array, "P"]) -> PyTree:
        """x - tilde_gamma_k (1/P) sum_p c_{k,p} z_{k,p}; with momentum x - tilde_gamma_k m, this sum a part of m."""
        z, length = self.z(seed, k, model_of(x)), self.steps.step(k) / self.P
        if isinstance(x, Moving):
            kept = trees.scale(self.steps.momentum, x.m)
            m = jax.lax.fori_loop(0, self.P, lambda p, m: trees.axpy(c[p] / self.P, z(p), m), kept)
            return Moving(trees.axpy(-self.steps.step(k), m, x.y), m)
        return jax.lax.fori_loop(0, self.P, lambda p, x: trees.axpy(-length * c[p], z(p), x), x)

    def move(self, x: PyTree, seed: Seed, c: Float[Array, "K P"]) -> PyTree:
        """x after all K steps."""
        return jax.lax.fori_loop(0, self.K, lambda k, x: self.step(x, seed, k, c[k]), x)
