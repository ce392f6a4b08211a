"""What MOCHA's server knows: a vector for each client, and a matrix of who is like whom, which together are their models."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from ... import trees


class Own(NamedTuple):
    w: PyTree  # w_t [n]
    q: Float[Array, ""]  # rho Sigma_tt/lam; for the personal model, while nobody else moves, without rho


class Tasks(NamedTuple):
    """The server's state; M is the most clients that there may be."""

    b: PyTree  # b_t [M, n]
    sigma: Float[Array, "M M"]  # 1 on its diagonal on average
    rho: Float[Array, ""]  # max_t sum_s |Sigma_ts| / Sigma_tt

    def own(self, t: Int[Array, ""], ridge: ArrayLike) -> Own:
        """What client t is told: w_t = (1/lam) sum_s Sigma_ts b_s, and q."""
        return Own(trees.weighted_sum(self.sigma[t] / ridge, self.b), self.rho * self.sigma[t, t] / ridge)

    def start(self, t: Int[Array, ""], ridge: ArrayLike) -> Own:
        """Where client t's personal model begins: at w_t, or at the mean of the others where it has no b_t, or no place."""
        place, heard = jnp.minimum(t, self.sigma.shape[0] - 1), jax.vmap(trees.norm)(self.b) > 0
        known = (t < self.sigma.shape[0]) & heard[place]
        w = trees.where(known, self.own(place, ridge).w, trees.mean_over(heard, self.models(ridge)))
        return Own(w, self.sigma[place, place] / ridge)

    def models(self, ridge: ArrayLike) -> PyTree:
        """All w_t [M, n]."""
        return trees.map(lambda a: jnp.tensordot(self.sigma / ridge, a, 1), self.b)

    def moved(self, ids: Int[Array, "S"], said: Bool[Array, "S"], db: PyTree) -> Tasks:
        """With the db_t of those who said something."""
        place = jnp.where(said, ids, self.sigma.shape[0])  # which is no place: the others are dropped, whatever they hold
        return self._replace(b=trees.map(lambda all, some: all.at[place].add(some, mode="drop"), self.b, db))

    def related(self, clients: int, ridge: ArrayLike, shrinkage: ArrayLike) -> Tasks:
        """With Sigma from the models of the first `clients`: (1 - s) m R/tr R + s I with R = (W^T W)^{1/2}.

        R comes from the singular values of W: those of W^T W are their squares, whose roots have half the digits left.
        """
        flat = [a.reshape(a.shape[0], -1) for a in jax.tree.leaves(self.models(ridge))]
        u, s, _ = jnp.linalg.svd(jnp.concatenate(flat, axis=1)[:clients], full_matrices=False)
        total, alone = jnp.sum(s), jnp.eye(clients, dtype=self.sigma.dtype)
        alike = jnp.where(total > 0, clients * (u * s[None]) @ u.T / jnp.where(total > 0, total, 1.0), alone)
        sigma = ((1.0 - shrinkage) * alike + shrinkage * alone).astype(self.sigma.dtype)
        own = jnp.diagonal(sigma)
        rho = jnp.max(jnp.where(own > 0, jnp.sum(jnp.abs(sigma), axis=1) / jnp.where(own > 0, own, 1.0), 1.0))
        return self._replace(sigma=self.sigma.at[:clients, :clients].set(sigma), rho=rho)


def independent(x: PyTree, members: int) -> Tasks:
    """Before anything was said: every b_t is 0, and nobody is like anybody else."""
    b = trees.map(lambda a: jnp.zeros((members, *a.shape), a.dtype), x)
    kind = jax.tree.leaves(x)[0].dtype
    return Tasks(b, jnp.eye(members, dtype=kind), jnp.ones((), kind))
