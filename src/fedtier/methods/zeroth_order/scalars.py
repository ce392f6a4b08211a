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
from ..solvers import ProjectedSgd
from .directions import Directions, Seed, directions, key_of


class Scalars(NamedTuple):
    """K steps of P directions each."""

    f: Loss
    steps: ProjectedSgd  # tilde_gamma_k
    K: int
    P: int
    mu: float | Float[Array, ""]
    probes: str

    def z(self, seed: Seed, k: ArrayLike, like: PyTree) -> Directions:
        """z_{k,1} .. z_{k,P}."""
        return directions(self.probes, keys.at(key_of(seed), k), like, self.P)

    def slope(self, y: PyTree, z: PyTree, rows: PyTree) -> Float[Array, ""]:
        """c_{k,p}: the slope of f at y along z, by a central difference."""
        return (self.f(trees.axpy(self.mu, z, y), rows) - self.f(trees.axpy(-self.mu, z, y), rows)) / (2.0 * self.mu)

    def measured(
        self, x: PyTree, seed: Seed, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]
    ) -> Float[Array, "K P"]:
        """c of a client that goes `steps` steps from x on its own rows, K at most; 0 for steps that it does not make."""

        def update(k: ArrayLike, made: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
            y, c = made
            rows, z = self.steps.sample(view, keys.at(key, k)), self.z(seed, k, y)
            here = spec.step_scale * jax.lax.map(lambda p: self.slope(y, z(p), rows), jnp.arange(self.P))
            return self.step(y, seed, k, here), c.at[k].set(here.astype(c.dtype))

        return jax.lax.fori_loop(0, jnp.minimum(steps, self.K), update, (x, jnp.zeros((self.K, self.P))))[1]

    def step(self, x: PyTree, seed: Seed, k: ArrayLike, c: Float[Array, "P"]) -> PyTree:
        """x - tilde_gamma_k (1/P) sum_p c_{k,p} z_{k,p}."""
        z, length = self.z(seed, k, x), self.steps.step(k) / self.P
        return jax.lax.fori_loop(0, self.P, lambda p, x: trees.axpy(-length * c[p], z(p), x), x)

    def move(self, x: PyTree, seed: Seed, c: Float[Array, "K P"]) -> PyTree:
        """x after all K steps."""
        return jax.lax.fori_loop(0, self.K, lambda k, x: self.step(x, seed, k, c[k]), x)
