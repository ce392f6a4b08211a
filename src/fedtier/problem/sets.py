"""Closed convex sets Y_i(x): Euclidean projection, membership, and what the theory needs to know of a set.

A set acts on the whole tree as one vector; `product` gives every leaf a set of its own. Projections hold for entries from
1e-30 to 1e38 in float32: where squares would overflow or vanish, vectors are first multiplied by a power of two, which is
exact, and thresholds are sought among differences to the largest entry.
"""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree, Real
from optax import projections

from .. import trees
from ..errors import FedtierError, positive, require

TOLERANCE = 1e-5  # of float32 projections, relative to the size of the set
FLOAT32 = 3.4e38  # the largest number of float32, rounded down

Dependence = Literal["everywhere", "fixed", "translated", "mixed", "unknown"]


@runtime_checkable
class Projection(Protocol):
    def __call__(self, y: PyTree, x: PyTree, spec: PyTree, /) -> PyTree:
        """The point of Y_i(x) nearest to y, a tree like y.

        Pure and traceable: it runs in every local step, under vmap over clients. `x` is the server's model, a tree like y;
        `spec` is one client's row. Projecting twice is projecting once, and no two points come out further apart.
        """
        ...


@runtime_checkable
class Membership(Protocol):
    def __call__(self, y: PyTree, x: PyTree, spec: PyTree, tolerance: float = ..., /) -> Bool[Array, ""] | bool:
        """Whether y lies in Y_i(x), up to `tolerance` times the size of the set. For checks: no method calls it."""
        ...


@runtime_checkable
class Reach(Protocol):
    def __call__(self, spec: PyTree, /) -> Real[ArrayLike, "..."]:
        """A number that |y - x| does not exceed for any y in Y_i(x) and any x; inf where there is none.

        With a spec of m clients, one number or m of them.
        """
        ...


class ConstraintSet(NamedTuple):
    """A set of your own needs the first three. The theory says "unknown" for what the other two leave out.

    dependence  how Y(x) depends on x, which decides how fast y_i(x) can move with x (equations (3) to (5) of docs/theory.md):
                everywhere   all of space: no constraint
                fixed        the same set for every x
                translated   Y(x) = x + Z, with the same Z for every x
                mixed        a product: on some leaves fixed, on the others translated
                unknown      anything else, or not said: no bound on how fast y_i(x) moves
    reach       how far from x its points can lie; where it is finite, a quadratic coupling is Lipschitz (28). None: not said
    """

    name: str  # for people; no code decides by it
    project: Projection
    contains: Membership
    dependence: Dependence = "unknown"
    reach: Reach | None = None


def everywhere() -> ConstraintSet:
    """All of space: no constraint."""
    return ConstraintSet(
        "everywhere", lambda y, x, spec: y, lambda y, x, spec, tolerance=TOLERANCE: jnp.asarray(True), "everywhere", _unbounded
    )


def ball(radius: float | None = None) -> ConstraintSet:
    """|y - x| <= radius around the server's model; `None` reads each client's own `spec.radius`.

    An infinite radius is no constraint, radius 0 makes every personal model equal to x.
    """
    if radius is not None:
        require(radius >= 0, "radius", radius, "must be at least 0", "leave it out to use each client's spec.radius")

    def reach(spec: PyTree) -> Real[ArrayLike, "..."]:
        return spec.radius if radius is None else radius

    def project(y: PyTree, x: PyTree, spec: PyTree) -> PyTree:
        d = trees.sub(y, x)
        limit, factor = reach(spec), _factor(trees.dot(d, d))
        d = trees.scale(factor, d)
        squared = trees.dot(d, d)
        outside = jnp.sqrt(squared) > limit * factor
        length = jnp.sqrt(jnp.where(outside, squared, 1.0))  # the square root has no gradient at 0
        return trees.where(outside, trees.axpy(jnp.where(outside, limit, 0.0), trees.scale(1 / length, d), x), y)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        d = trees.sub(y, x)
        factor = _factor(trees.dot(d, d) + trees.dot(x, x))
        limit = reach(spec) * factor
        slack = tolerance * (jnp.where(jnp.isfinite(limit), limit, 0.0) + trees.norm(trees.scale(factor, x)))
        return trees.norm(trees.scale(factor, d)) <= limit + slack

    return ConstraintSet("ball", project, contains, "everywhere" if radius == inf else "translated", reach)


def box(lower: PyTree, upper: PyTree) -> ConstraintSet:
    """lower <= y <= upper, each a number or a tree like the model. Infinite bounds are allowed."""
    low, high = jax.tree.leaves(lower), jax.tree.leaves(upper)
    low, high = low * (len(high) if _is_number(lower) else 1), high * (len(low) if _is_number(upper) else 1)
    ordered = len(low) == len(high) and all(
        bool(np.all(np.asarray(a) <= np.asarray(b))) for a, b in zip(low, high, strict=True)
    )
    require(ordered, "box(lower, upper)", (lower, upper), "lower must not exceed upper", "swap them?")

    def bounds(y: PyTree) -> tuple[PyTree, PyTree]:
        def like(b: PyTree) -> PyTree:
            return trees.map(lambda a: jnp.full_like(a, b), y) if _is_number(b) else b

        return like(lower), like(upper)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        low, high = bounds(y)
        inside = trees.map(lambda a, l, u: jnp.all((a >= l - tolerance) & (a <= u + tolerance)), y, low, high)
        return jnp.all(jnp.stack(jax.tree.leaves(inside)))

    return ConstraintSet("box", lambda y, x, spec: projections.projection_box(y, *bounds(y)), contains, "fixed", _unbounded)


def orthant() -> ConstraintSet:
    """y >= 0."""

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        return jnp.all(jnp.stack([jnp.all(a >= -tolerance) for a in jax.tree.leaves(y)]))

    return ConstraintSet("orthant", lambda y, x, spec: projections.projection_non_negative(y), contains, "fixed", _unbounded)


def simplex(total: float = 1.0) -> ConstraintSet:
    """y >= 0 with sum total."""
    positive("total", total)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        inside = jnp.all(jnp.stack([jnp.all(a >= -tolerance * total) for a in jax.tree.leaves(y)]))
        return inside & (jnp.abs(_sum(y) - total) <= tolerance * total * max(1.0, trees.size(y) ** 0.5))

    return ConstraintSet("simplex", lambda y, x, spec: _onto_simplex(y, total), contains, "fixed", _unbounded)


def l1_ball(radius: float) -> ConstraintSet:
    """sum |y_j| <= radius: sparse personal models."""
    positive("radius", radius)

    def project(y: PyTree, x: PyTree, spec: PyTree) -> PyTree:
        sizes = trees.map(jnp.abs, y)
        near = trees.map(lambda a, b: jnp.sign(a) * b, y, _onto_simplex(sizes, radius))
        return trees.where(_sum(sizes) <= radius, y, near)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        return _sum(trees.map(jnp.abs, y)) <= radius * (1 + tolerance * max(1.0, trees.size(y) ** 0.5))

    return ConstraintSet("l1_ball", project, contains, "fixed", _unbounded)


def half_space(normal: PyTree, offset: float) -> ConstraintSet:
    """<normal, y> <= offset, `normal` a tree like the model and not zero."""
    length = float(np.sqrt(sum(float(np.sum(np.square(np.asarray(a, np.float64)))) for a in jax.tree.leaves(normal))))
    require(0 < length < inf, "normal", normal, "must be finite and not zero", "a half-space needs a direction")
    require(bool(np.isfinite(offset)), "offset", offset, "must be finite", "everywhere() is no constraint")
    unit, distance = trees.map(lambda a: np.asarray(a, np.float64) / length, normal), float(offset) / length
    require(abs(distance) <= FLOAT32, "offset", offset, f"over |normal| = {length:g} must not exceed {FLOAT32:g}")

    def scaled(y: PyTree) -> tuple[PyTree, PyTree, Array, Array]:
        """The unit normal, and y and the distance times a factor of their size."""
        squared = trees.dot(y, y)
        factor = _factor(squared + jnp.square(jnp.asarray(distance, squared.dtype)))
        return trees.map(lambda u, a: jnp.asarray(u, a.dtype), unit, y), trees.scale(factor, y), distance * factor, factor

    def project(y: PyTree, x: PyTree, spec: PyTree) -> PyTree:
        u, z, distance, factor = scaled(y)
        excess = trees.dot(u, z) - distance
        near = trees.axpy(-excess, u, z)
        near = trees.axpy(distance - trees.dot(u, near), u, near)  # what rounding left of the excess
        return trees.where(excess > 0, trees.scale(1 / factor, near), y)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        u, z, distance, factor = scaled(y)
        return trees.dot(u, z) <= distance + tolerance * (factor + trees.norm(z))

    return ConstraintSet("half_space", project, contains, "fixed", _unbounded)


def product(sets: PyTree) -> ConstraintSet:
    """A set per leaf: `sets` is a tree like the model with a ConstraintSet at each leaf (or above several leaves).

    >>> Y = product({"weight": ball(), "bias": orthant()})
    """

    def is_set(node: object) -> bool:
        return isinstance(node, ConstraintSet)

    members: list[ConstraintSet] = jax.tree.leaves(sets, is_leaf=is_set)
    if not members or not all(is_set(member) for member in members):
        raise FedtierError("product(sets)", sets, "must have a ConstraintSet at every leaf", "everywhere() for a free leaf")

    def project(y: PyTree, x: PyTree, spec: PyTree) -> PyTree:
        return jax.tree.map(lambda Y, a, b: Y.project(a, b, spec), sets, y, x, is_leaf=is_set)

    def contains(y: PyTree, x: PyTree, spec: PyTree, tolerance: float = TOLERANCE) -> Bool[Array, ""]:
        inside = jax.tree.map(lambda Y, a, b: Y.contains(a, b, spec, tolerance), sets, y, x, is_leaf=is_set)
        return jnp.all(jnp.stack(jax.tree.leaves(inside)))

    reaches = [member.reach for member in members if member.reach is not None]

    def reach(spec: PyTree) -> Real[ArrayLike, "..."]:
        return sum(jnp.square(jnp.asarray(one(spec))) for one in reaches) ** 0.5

    return ConstraintSet(
        "product of " + ", ".join(member.name for member in members),
        project,
        contains,
        _together({member.dependence for member in members}),
        reach if len(reaches) == len(members) else None,
    )


def _together(parts: set[Dependence]) -> Dependence:
    """The dependence of a product. All of space is x + Z as well, with Z = all of space."""
    if "unknown" in parts:
        return "unknown"
    if len(parts) == 1:
        return next(iter(parts))
    if parts <= {"everywhere", "fixed"}:
        return "fixed"
    return "translated" if parts <= {"everywhere", "translated"} else "mixed"


def _unbounded(spec: PyTree) -> float:
    return inf


def _onto_simplex(y: PyTree, total: float) -> PyTree:
    """max(y - t, 0) with the threshold t for which the sum is `total`.

    A common shift of all entries changes nothing, so the largest becomes 0, and what lies `total` or more below it gets 0:
    everything then is between -1 and 0 in units of `total`, however large y is. t is found by sorting and is rounded; the
    excess it leaves in the sum is taken off once more, from the differences, which are exact near t. The derivative runs
    through that second step alone.
    """
    top = jax.lax.stop_gradient(reduce(jnp.maximum, [jnp.max(a, initial=-inf) for a in jax.tree.leaves(y)]))
    w = trees.map(lambda a: jnp.maximum((a - top) / total, -1.0), y)
    falling = -jnp.sort(-jax.lax.stop_gradient(jnp.concatenate([a.ravel() for a in jax.tree.leaves(w)])))
    sums, counts = jnp.cumsum(falling), jnp.arange(1, falling.size + 1, dtype=falling.dtype)
    kept = jnp.sum(counts * falling > sums - 1)
    threshold = (sums[kept - 1] - 1) / kept
    above = trees.map(lambda a: a - threshold.astype(a.dtype), w)
    excess = (_sum(trees.map(jax.nn.relu, above)) - 1) / _sum(trees.map(lambda a: (a > 0).astype(falling.dtype), above))
    return trees.map(lambda a: total * jax.nn.relu(a - excess.astype(a.dtype)), above)


def _factor(squared: Float[Array, ""]) -> Float[Array, ""]:
    """A power of two that brings a vector of this squared length where squares neither overflow nor vanish.

    1 for squares from 2^-80 to 2^96 in float32. A constant for derivatives: no result depends on it.
    """
    e = int(jnp.finfo(squared.dtype).maxexp) // 8
    shift = 2.0 ** (11 * e // 2)
    factor = jnp.where(squared > 2.0 ** (6 * e), 1 / shift, jnp.where(squared < 2.0 ** (-5 * e), shift, 1.0))
    return jax.lax.stop_gradient(factor.astype(squared.dtype))


def _sum(x: PyTree) -> Float[Array, ""]:
    return reduce(jnp.add, [jnp.sum(a) for a in jax.tree.leaves(x)])


def _is_number(bound: PyTree) -> bool:
    return jax.tree_util.all_leaves([bound]) and np.ndim(bound) == 0
