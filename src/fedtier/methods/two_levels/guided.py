"""The guided estimator: probes along what the client already knows about its hypergradient.

    g = sum over guides s_k v_k + (n - guides) s_u u          u random, orthogonal to the guides; only with K > 1

Along a guide the slope is measured, so the factor is 1, not n. Why it works: for the quadratic coupling the hypergradient is
lambda (I - J)^T (x - y), and the client's last displacement x - y is the guide.

The mean of g, with exact solves. Let W be the space orthogonal to the guides. The part along a guide is the central difference
of width eta; with K > 1, or with `mix`, the part in W is the gradient of f smoothed in the ball of W instead of that of R^n.
Where f is quadratic this is grad f_eta, the target of `sphere`; where f is three times differentiable it is within O(eta^2)
of it; where a constraint starts to hold between the probes, a kink of f, it is another vector. With K = 1 and mix = 0 the part
in W is missing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from ... import keys, trees
from ...errors import choice, require, share
from .control import controlled
from .estimator import ClientSide, Estimator
from .smoothing import check_probes, gram_schmidt, sphere, spheres, unit


def guided(
    *, smoothing: float = 0.1, directions: int = 1, guide: str = "displacement", mix: float = 0.0, control: bool = False
) -> Estimator:
    """Probes along the client's last displacements x - y; the client sends g.

    smoothing    eta; below 0.01 float32 rounding shows (a warning says so)
    directions   K directions per client and round, 2 K solves; with K > 1 the last one is random. Until a client has
                 been asked for the first time the others are random too
    guide        "displacement", the client's last ones, or "server": the gradient of f1 first, which the server sends
                 along with x, then displacements; it says what the server's own next step does to f2, and no more
    mix          K = 1: the chance of a random direction instead of the guide, so that no direction is lost, for variance
    control      subtract the known partial gradient, see `control`
    """
    check_probes(smoothing, directions)
    choice("guide", guide, ("displacement", "server"))
    share("mix", mix)
    require(mix == 0 or directions == 1, "mix", mix, "needs directions = 1", "with more, one direction in K is random anyway")
    random = 0 if directions == 1 else 1
    guides, served = directions - random, guide == "server"

    def propose(key: Key[Array, ""], x: PyTree, memory: PyTree) -> PyTree:
        drawn = spheres(keys.at(key, 0), x, directions)
        known = trees.map(lambda old, new: jnp.concatenate([old, new[guides:]]), memory, drawn)
        lengths = jax.vmap(trees.norm)(known)
        v = jax.vmap(lambda a, b, length: trees.where(length > 0, a, b))(known, drawn, lengths)
        v = gram_schmidt(v, directions)
        return v if mix == 0 else _mixed(key, x, trees.take(v, 0), mix)

    def estimate(slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], client: ClientSide | None) -> PyTree:
        n = trees.size(trees.take(v, 0))
        if mix > 0:
            weight = jnp.where(_coin(key, mix), (n - 1) / mix, 1.0 / (1.0 - mix))
            return trees.weighted_sum(weight * slopes, v)
        weights = jnp.where(jnp.arange(directions) < guides, 1.0, (n - guides) / max(random, 1))
        return trees.weighted_sum(weights * slopes, v)

    chosen = Estimator(
        "guided", propose, estimate, smoothing, directions,
        guides=guides - served, served=served, common=served and guides == 1, stretched=random > 0 or mix > 0,
    )  # fmt: skip
    return controlled(chosen) if control else chosen


def _mixed(key: Key[Array, ""], x: PyTree, guide: PyTree, mix: float) -> PyTree:
    """The guide, or with chance `mix` a random direction orthogonal to it; leading axis 1."""
    other = sphere(keys.at(key, 1), x)
    other = unit(trees.axpy(-trees.dot(guide, other), guide, other))
    return trees.map(lambda a: a[None], trees.where(_coin(key, mix), other, guide))


def _coin(key: Key[Array, ""], mix: float) -> Bool[Array, ""]:
    return jax.random.uniform(keys.at(key, 2)) < mix
