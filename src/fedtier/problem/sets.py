"""Closed convex sets Y_i(x): Euclidean projection and membership.

    project(y, x, spec) -> the point of Y_i(x) nearest to y       contains(y, x, spec, tolerance) -> bool

A set acts on the whole tree as one vector; `product` gives every leaf a set of its own. Projections come from
optax where it has them; the ball is ours because optax's gives NaN at radius 0 and at an infinite radius.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from optax import projections

from .. import trees
from ..errors import FedtierError, positive, require

TOLERANCE = 1e-5  # of float32 projections, relative to the size of the set


class ConstraintSet(NamedTuple):
    name: str
    project: Callable[..., PyTree]  # (y, x, spec) -> y
    contains: Callable[..., Any]  # (y, x, spec, tolerance) -> bool
    moves: bool = False  # does the set depend on x? (its Lipschitz constant enters the theory)


def everywhere() -> ConstraintSet:
    """All of space: no constraint."""
    return ConstraintSet("everywhere", lambda y, x, spec: y, lambda y, x, spec, tolerance=TOLERANCE: jnp.asarray(True))


def ball(radius: float | None = None) -> ConstraintSet:
    """|y - x| <= radius around the server's model; `None` reads each client's own `spec.radius`.

    An infinite radius is no constraint, radius 0 makes every personal model equal to x.
    """
    if radius is not None:
        require(radius >= 0, "radius", radius, "must be at least 0", "leave it out to use each client's spec.radius")

    def reach(spec: Any) -> Any:
        return spec.radius if radius is None else radius

    def project(y: PyTree, x: PyTree, spec: Any) -> PyTree:
        d = trees.sub(y, x)
        length, limit = trees.norm(d), reach(spec)
        inside = length <= limit
        near = trees.axpy(limit / jnp.where(inside, 1.0, length), d, x)
        return trees.where(inside, y, near)

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        limit = reach(spec)
        slack = tolerance * (jnp.where(jnp.isfinite(limit), limit, 0.0) + trees.norm(x))
        return trees.norm(trees.sub(y, x)) <= limit + slack

    return ConstraintSet("ball", project, contains, moves=True)


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

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        low, high = bounds(y)
        inside = trees.map(lambda a, l, u: jnp.all((a >= l - tolerance) & (a <= u + tolerance)), y, low, high)
        return jnp.all(jnp.stack(jax.tree.leaves(inside)))

    return ConstraintSet("box", lambda y, x, spec: projections.projection_box(y, *bounds(y)), contains)


def orthant() -> ConstraintSet:
    """y >= 0."""

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        return jnp.all(jnp.stack([jnp.all(a >= -tolerance) for a in jax.tree.leaves(y)]))

    return ConstraintSet("orthant", lambda y, x, spec: projections.projection_non_negative(y), contains)


def simplex(total: float = 1.0) -> ConstraintSet:
    """y >= 0 with sum total."""
    positive("total", total)

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        leaves = jax.tree.leaves(y)
        inside = jnp.all(jnp.stack([jnp.all(a >= -tolerance * total) for a in leaves]))
        return inside & (jnp.abs(sum(jnp.sum(a) for a in leaves) - total) <= tolerance * total * max(1.0, trees.size(y) ** 0.5))

    return ConstraintSet("simplex", lambda y, x, spec: projections.projection_simplex(y, total), contains)


def l1_ball(radius: float) -> ConstraintSet:
    """sum |y_j| <= radius: sparse personal models."""
    positive("radius", radius)

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        total = sum(jnp.sum(jnp.abs(a)) for a in jax.tree.leaves(y))
        return total <= radius * (1 + tolerance * max(1.0, trees.size(y) ** 0.5))

    return ConstraintSet("l1_ball", lambda y, x, spec: projections.projection_l1_ball(y, radius), contains)


def half_space(normal: PyTree, offset: float) -> ConstraintSet:
    """<normal, y> <= offset, `normal` a tree like the model and not zero."""
    length = float(np.sqrt(sum(float(np.sum(np.square(np.asarray(a)))) for a in jax.tree.leaves(normal))))
    require(0 < length < np.inf, "normal", normal, "must be finite and not zero", "a half-space needs a direction")
    require(bool(np.isfinite(offset)), "offset", offset, "must be finite", "everywhere() is no constraint")

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        return trees.dot(normal, y) <= offset + tolerance * length * (1.0 + trees.norm(y))

    return ConstraintSet("half_space", lambda y, x, spec: projections.projection_halfspace(y, normal, offset), contains)


def product(sets: PyTree) -> ConstraintSet:
    """A set per leaf: `sets` is a tree like the model with a ConstraintSet at each leaf (or above several leaves).

    >>> Y = product({"weight": ball(), "bias": orthant()})
    """

    def is_set(node: Any) -> bool:
        return isinstance(node, ConstraintSet)

    members = jax.tree.leaves(sets, is_leaf=is_set)
    if not members or not all(is_set(member) for member in members):
        raise FedtierError("product(sets)", sets, "must have a ConstraintSet at every leaf", "everywhere() for a free leaf")

    def project(y: PyTree, x: PyTree, spec: Any) -> PyTree:
        return jax.tree.map(lambda Y, a, b: Y.project(a, b, spec), sets, y, x, is_leaf=is_set)

    def contains(y: PyTree, x: PyTree, spec: Any, tolerance: float = TOLERANCE) -> Any:
        inside = jax.tree.map(lambda Y, a, b: Y.contains(a, b, spec, tolerance), sets, y, x, is_leaf=is_set)
        return jnp.all(jnp.stack(jax.tree.leaves(inside)))

    name = "product of " + ", ".join(member.name for member in members)
    return ConstraintSet(name, project, contains, moves=any(member.moves for member in members))


def _is_number(bound: PyTree) -> bool:
    return jax.tree_util.all_leaves([bound]) and np.ndim(bound) == 0
