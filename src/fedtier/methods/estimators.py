"""Estimates of a client's hypergradient, the gradient of x -> f2(x, y_i(x)), behind one small interface.

    propose   which probe directions v_k a client tries around x
    estimate  turns the slopes s_k = (f2(x + eta v_k, y+) - f2(x - eta v_k, y-)) / (2 eta) into g

| name         | g                                   | estimates                      | solves  | a client sends |
|--------------|-------------------------------------|--------------------------------|---------|----------------|
| sphere       | (n/K) sum s_k v_k                   | grad f_eta, unbiased           | 2 K     | 2 K values     |
| orthogonal   | the same, v_k orthonormal           | grad f_eta, unbiased           | 2 K     | 2 K values     |
| guided       | sum over guides s_k v_k (+ random)  | its projection on the guides   | 2 K     | g, n numbers   |
| first_order  | grad_x f2(x, y), y held fixed       | without the term J^T grad_y f2 | 1 (2 H) | g, n numbers   |
| exact        | hypergradient by conjugate gradients| itself, up to solver error     | 1 (2 H) | g, n numbers   |

f_eta is the smoothed implicit function; all are exact in eta when f2(x, y(x)) is quadratic. `control` subtracts what is
known: g + (d - estimate of d) with d = grad_x f2(x, y), unbiased for whatever the estimator is unbiased for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import choice, require, share, whole
from ..federation import View
from ..problem import Bilevel
from .hypergradient import first_order, hypergradient
from .smoothing import sphere, spheres


class Site(NamedTuple):
    """What a client knows when it turns slopes into an estimate."""

    x: PyTree
    y: PyTree  # its solution at x, or the mean of its solutions around x
    view: View
    spec: Any
    key: Key[Array, ""]


class Estimator(NamedTuple):
    name: str
    directions: int  # K; 0 = no probes: one solve at x itself with twice the steps
    private: bool  # True: only the client can form g, so g goes up; False: the server can, from the values
    guides: int  # how many recent displacements x - y the client remembers
    propose: Callable[..., PyTree]  # (key, x, guides [.., n]) -> v [K, n], unit vectors
    estimate: Callable[..., PyTree]  # (slopes [K], v, the key of propose, site) -> g
    served: bool = False  # does the server send its gradient as the first guide?


NAMES = ("sphere", "orthogonal", "guided", "first_order", "exact")
UPLINKS = ("values", "models", "estimate")


def make(
    name: str,
    problem: Bilevel,
    *,
    directions: int = 1,
    guide: str = "displacement",
    mix: float = 0.0,
    control: bool = False,
    uplink: str = "auto",
) -> Estimator:
    """The estimator `name` with K = `directions`, refused when it cannot live with `uplink`.

    "auto" is guided, the best by measurement (docs/estimators.md), and sphere where only values or models may leave.

    guide    guided: "displacement", the client's last ones, or "server": the gradient of f1 first, which the server sends
             along with x, then displacements; it says what the server's own next step does to f2, and no more
    mix      guided, K = 1: the chance of a random direction instead of the guide, so that no direction is lost;
             the estimate is then unbiased for the gradient of f_eta, at the price of its variance
    control  subtract the known partial gradient (sphere, orthogonal, guided); the client then sends g
    """
    choice("estimator", name, ("auto", *NAMES))
    whole("directions", directions)
    share("mix", mix)
    if name == "auto":
        name = "sphere" if uplink in ("values", "models") else "guided"
    choice("guide", guide, ("displacement", "server"))
    require(guide == "displacement" or name == "guided", "guide", guide, f"is for the guided estimator, not for {name}", "")
    require(mix == 0 or name == "guided", "mix", mix, f"is for the guided estimator, not for {name}", "leave it out")
    require(mix == 0 or directions == 1, "mix", mix, "needs directions = 1", "with more, one direction in K is random anyway")
    require(not control or name in ("sphere", "orthogonal", "guided"), "control", control, f"has no meaning for {name}")
    private = control or name in ("guided", "first_order", "exact")
    fits = uplink == "auto" or (uplink == "estimate") == private
    sends = "g_i: uplink = 'estimate'" if private else "values or models"
    require(
        fits, "uplink", uplink, f"the estimator {name}{' with control' * control} sends {sends}", "or choose estimator = 'auto'"
    )
    if name in ("first_order", "exact"):
        rule = first_order(problem) if name == "first_order" else hypergradient(problem)
        return Estimator(name, 0, True, 0, lambda key, x, memory: (), lambda slopes, v, key, site: rule(site))
    if name == "guided":
        chosen = _guided(directions, guide == "server", mix)
    else:
        draw = orthonormal if name == "orthogonal" else spheres
        chosen = Estimator(name, directions, False, 0, lambda key, x, memory: draw(key, x, directions), _isotropic)
    return _controlled(chosen, problem) if control else chosen


def orthonormal(key: Key[Array, ""], like: PyTree, directions: int) -> PyTree:
    """K orthonormal directions, each uniform on the sphere: Gram-Schmidt on independent draws. Needs K <= n."""
    n = trees.size(like)
    require(directions <= n, "directions", directions, f"there are only {n} orthogonal directions", "use fewer")
    return gram_schmidt(spheres(key, like, directions), directions)


def gram_schmidt(v: PyTree, count: int) -> PyTree:
    """Orthonormal v, row by row, in order; twice over, because once is not enough in float32."""

    def remove(row: PyTree, k: int) -> PyTree:
        for _ in range(2):
            for j in range(k):
                row = trees.axpy(-trees.dot(rows[j], row), rows[j], row)
            row = unit(row)
        return row

    rows: list[PyTree] = []
    for k in range(count):
        rows.append(remove(trees.take(v, k), k))
    return trees.stack(rows)


def unit(x: PyTree) -> PyTree:
    length = trees.norm(x)
    return trees.scale(1.0 / jnp.where(length > 0, length, 1.0), x)


def _isotropic(slopes: Float[Array, "K"], v: PyTree, key: Any, site: Any) -> PyTree:
    """(n/K) sum s_k v_k: unbiased, because E n v v^T = I."""
    n = trees.size(trees.take(v, 0))
    return trees.weighted_sum(n / slopes.shape[0] * slopes, v)


def _guided(directions: int, served: bool, mix: float) -> Estimator:
    """The guides first (the server's gradient if `served`, then the client's recent displacements, the latest in front);
    with K > 1 the last direction is random.

    Along a guide the slope is exact, so g is the projection of the gradient on the guides: the factor is 1, not n. Why
    it works: for the quadratic coupling the gradient is lambda (I - J)^T (x - y), and x - y is the guide. Random
    directions, orthogonal to the guides, carry (n - guides)/(K - guides) and make g unbiased. Until a client has been
    asked for the first time its guide is a random direction.
    """
    random = 0 if directions == 1 else 1  # with K > 1, one direction in K stays random
    guides = directions - random

    def propose(key: Key[Array, ""], x: PyTree, memory: PyTree) -> PyTree:
        drawn = spheres(keys.at(key, 0), x, directions)
        known = trees.map(lambda old, new: jnp.concatenate([old, new[guides:]]), memory, drawn)
        lengths = jax.vmap(trees.norm)(known)
        v = jax.vmap(lambda a, b, length: trees.where(length > 0, a, b))(known, drawn, lengths)
        v = gram_schmidt(v, directions)
        if mix == 0:
            return v
        guide = trees.take(v, 0)
        other = sphere(keys.at(key, 1), x)
        other = unit(trees.axpy(-trees.dot(guide, other), guide, other))
        return trees.map(lambda a: a[None], trees.where(_coin(key, mix), other, guide))

    def estimate(slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], site: Any) -> PyTree:
        n = trees.size(trees.take(v, 0))
        if mix > 0:
            weight = jnp.where(_coin(key, mix), (n - 1) / mix, 1.0 / (1.0 - mix))
            return trees.weighted_sum(weight * slopes, v)
        weights = jnp.where(jnp.arange(directions) < guides, 1.0, (n - guides) / max(random, 1))
        return trees.weighted_sum(weights * slopes, v)

    return Estimator("guided", directions, True, guides - served, propose, estimate, served)


def _coin(key: Key[Array, ""], mix: float) -> Any:
    return jax.random.uniform(keys.at(key, 2)) < mix


def _controlled(inner: Estimator, problem: Bilevel) -> Estimator:
    """g = d + inner(s_k - <d, v_k>) with d = grad_x f2(x, y): only the unknown part J^T grad_y f2 is left to chance."""
    known = first_order(problem)

    def estimate(slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], site: Site) -> PyTree:
        d = known(site)
        expected = jax.vmap(lambda direction: trees.dot(d, direction))(v)
        return trees.add(d, inner.estimate(slopes - expected, v, key, site))

    return inner._replace(name=f"{inner.name} + control", private=True, estimate=estimate)
