"""The pull of the clients on the server: their estimates, those that it remembers among them, as it moves.

A reply says g_i, the slope of f2_i at the x_i where it was measured, and the value f2_i there. As f2 is never below 0, a slope
cannot last. The simplest curve with this value and this slope that stays above 0 is a square,

    f2_i(x) ~ f2_i (1 + p)^2      with the progress      p = <g_i, x - x_i> / (2 f2_i)
    its slope:  g_i (1 + p)       0 from p = -1 on, where the square is 0, and at most MOST g_i

For f2 = lambda/2 |x - y|^2 this is Gauss and Newton's curve along x - y. With `fading` the pull at x is the mean of these
slopes: at x = x_i it is g_i itself, so stationary points stay. A server that takes many steps in a round, or remembers an
estimate for many rounds, is pulled as far as the estimate says anything about, and no further. Without `fading` the pull is g_i
wherever x goes; for the paper's one step a round that is the same.

An estimate that is remembered pulls in every round until its client answers again: where one client of ten answers, in ten.
With `spread` the pull is weaker there. Of all answers that there can be (one of each client, or as many as there are rows for)
a share q is new in a round; the sum is multiplied by min(1, q/spread). With spread = 1 an estimate then counts in all as one
round, where clients answer equally often; with less only rounds with a share of answers below `spread` have a weaker pull. In
a round without answers nothing pulls.

Some estimators stretch g_i beyond the slope that was measured, n times for one random direction, to make up for those that were
not tried. f2's slope along g_i then is only a share of it, <u, g_i>/|g_i|^2 with u = sum s_k v_k, and so is the progress.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ... import trees
from ..method import Round

MOST, NOBODY = 2.0, -1


class Estimate(NamedTuple):
    """What is known of one client's hypergradient; with a leading axis, of several."""

    g: PyTree  # g_i [n]; 0 where H_i = 0
    f2: Float[Array, "*S"]  # at x; 0 where H_i = 0: the client says nothing
    share: Float[Array, "*S"]  # of g_i that was measured


class Replies(NamedTuple):
    """Estimates with where they come from, one row each."""

    estimates: Estimate
    at: Float[Array, "S"]  # <g_i, x_i>
    client: Int[Array, "S"]  # i, or NOBODY: an empty row


def none(x: PyTree, rows: int) -> Replies:
    """A memory for so many replies, empty."""
    g = trees.map(lambda a: jnp.zeros((rows, *a.shape), a.dtype), x)
    return Replies(Estimate(g, jnp.zeros(rows), jnp.zeros(rows)), jnp.zeros(rows), jnp.full(rows, NOBODY, jnp.int32))


def measured_share(measured: PyTree, g: PyTree) -> Float[Array, ""]:
    """The slope of f2 along g over |g|, from the slopes that were measured, sum s_k v_k; 0 where there is none."""
    square = trees.dot(g, g)
    return jnp.where(square > 0, jnp.maximum(trees.dot(measured, g), 0.0) / jnp.where(square > 0, square, 1.0), 0.0)


class Pull(NamedTuple):
    """What acts on the server in one round."""

    replies: Replies
    weights: Float[Array, "S"]  # of the mean
    fading: bool

    def __call__(self, x: PyTree) -> PyTree:
        """The pull at x."""
        (g, f2, share), at, _ = self.replies
        if not self.fading:
            return trees.weighted_sum(self.weights, g)
        progress = share * (_dots(g, x) - at) / jnp.where(f2 > 0, 2 * f2, jnp.inf)
        factors = jnp.where(self.weights > 0, jnp.clip(1 + progress, 0.0, MOST), 0.0)  # what did not arrive may be anything
        return trees.weighted_sum(self.weights * factors, g)


def pull_of(
    estimates: Estimate, x: PyTree, memory: Replies | tuple[()], round: Round, fading: bool, spread: float = 0.0
) -> tuple[Pull, Replies | tuple[()]]:
    """(the pull of this round, the memory after it), from the estimates of the round, measured at `x`.

    Without memory it is the mean over the replies that arrived. With one it is the sum over the latest reply of each client
    that is known, over the number of clients, or of rows where these are fewer: clients not yet heard count as 0. With `spread`
    that is weaker where few of them said something in this round. The memory keeps the latest reply of each.
    """
    f2 = estimates.f2
    new = Replies(estimates, _dots(estimates.g, x) if fading else jnp.zeros_like(f2), round.ids)
    if not isinstance(memory, Replies):
        count = jnp.sum(round.arrived)
        return Pull(new, round.arrived / jnp.where(count > 0, count, 1).astype(f2.dtype), fading), ()
    order = jnp.argsort(round.ids)  # whoever stands where in the cohort, the memory is the same
    new, said = trees.take(new, order), (round.arrived & (f2 > 0))[order]
    again = jnp.any((memory.client[:, None] == new.client[None]) & said[None], axis=1)
    both = trees.map(lambda a, b: jnp.concatenate([a, b]), new, memory)
    known = jnp.concatenate([said, (memory.client != NOBODY) & ~again])
    latest = jnp.argsort(~known, stable=True)[: memory.client.size]  # known ones first, those of this round in front
    kept = jax.vmap(trees.where)(known[latest], trees.take(both, latest), none(x, latest.size))
    clients = jnp.asarray(min(round.clients, known.size), f2.dtype)
    weights = known / clients
    weaker = jnp.minimum(1.0, jnp.sum(said) / (spread * clients)) if spread else 1.0
    return Pull(both, weights * weaker, fading), kept


def _dots(g: PyTree, x: PyTree) -> Float[Array, "S"]:
    """<g_i, x> for every row."""
    return functools.reduce(jnp.add, jax.tree.leaves(trees.map(lambda a, b: a.reshape(a.shape[0], -1) @ b.ravel(), g, x)))
