"""Constants of problems without a closed form, measured at sampled points by power iteration and finite differences.

Every result is an `estimate`: a Lipschitz constant found this way is too small, a strong convexity constant too large, because
only a few points were seen. One sampled point with negative curvature, however, refutes strong convexity for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from .. import keys, trees
from ..problem import Bilevel, second_slopes
from ..problem.couplings import Coupling
from .constants import CouplingConstants, LowerConstants
from .numbers import Number, absent, estimate

ITERATIONS = 30

ScalarFunction = Callable[[PyTree], Float[Array, ""]]


def random_like(key: Key[Array, ""], x: PyTree) -> PyTree:
    """A tree like x with normal entries."""
    leaves, structure = jax.tree.flatten(x)
    return structure.unflatten([jax.random.normal(keys.at(key, k), a.shape, a.dtype) for k, a in enumerate(leaves)])


@second_slopes()
def curvature(f: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> list[tuple[float, float]]:
    """The least and the largest eigenvalue of f's Hessian at each point, by power iteration: 2 ITERATIONS Hessian products."""

    def power(x: PyTree, shift: Float[Array, ""], v: PyTree) -> Float[Array, ""]:
        def apply(u: PyTree) -> PyTree:  # (H - shift) u
            return trees.axpy(-shift, u, jax.jvp(jax.grad(f), (x,), (u,))[1])

        def step(_: Int[Array, ""], u: PyTree) -> PyTree:
            w = apply(u)
            return trees.scale(1 / jnp.maximum(trees.norm(w), 1e-30), w)

        u = jax.lax.fori_loop(0, ITERATIONS, step, trees.scale(1 / trees.norm(v), v))
        return trees.dot(u, apply(u))

    @jax.jit
    def ends(x: PyTree, v: PyTree) -> tuple[Float[Array, ""], Float[Array, ""]]:
        first = power(x, jnp.zeros(()), v)  # the eigenvalue largest in absolute value
        return first, first + power(x, first, v)  # and the one farthest from it

    found = [sorted(map(float, ends(x, random_like(keys.at(key, k), x)))) for k, x in enumerate(points)]
    return [(low, high) for low, high in found]


@second_slopes()
def sensitivity(G: Callable[[PyTree], PyTree], x: PyTree, key: Key[Array, ""]) -> float:
    """The norm of the Jacobian of the map G at x, by power iteration on J^T J."""
    _, pull = jax.vjp(G, x)

    def step(_: Int[Array, ""], u: PyTree) -> PyTree:
        w = pull(jax.jvp(G, (x,), (u,))[1])[0]
        return trees.scale(1 / jnp.maximum(trees.norm(w), 1e-30), w)

    v = random_like(key, x)
    u = jax.lax.fori_loop(0, ITERATIONS, step, trees.scale(1 / trees.norm(v), v))
    return float(trees.norm(jax.jvp(G, (x,), (u,))[1]))


def gradient_smoothness(f: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """The Lipschitz constant of grad f: the largest |eigenvalue| seen."""
    found = [max(map(abs, ends)) for ends in curvature(f, points, key)]
    return estimate(max(found), "(2)", f"power iteration at {len(found)} points; the true constant is at least this")


def strong_convexity(h: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """mu_h: the least eigenvalue seen; `absent`, with the curvature that was seen, once one is not positive."""
    found = [low for low, _ in curvature(h, points, key)]
    least = min(found)
    if least <= 1e-6 * max(1.0, abs(max(found))):
        return absent(min(least, 0.0), "(2)", f"h has curvature {least:.3g} at a sampled point: it is not strongly convex")
    return estimate(least, "(2)", f"power iteration at {len(found)} points; the true constant is at most this")


def cross_sensitivity(gradient: Callable[[PyTree], PyTree], points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """L_x: how fast grad_y h moves with x; `gradient` maps x to grad_y h(x, y) at a fixed y."""
    found = [sensitivity(gradient, x, keys.at(key, k)) for k, x in enumerate(points)]
    return estimate(max(found), "(2)", f"power iteration at {len(found)} points; the true constant is at least this")


def gradient_noise(gradients: PyTree, batch: int) -> Number:
    """sigma of a minibatch of `batch` rows, from the gradients of single rows (leading axis: rows) at one point."""
    rows = np.concatenate([np.asarray(a, np.float64).reshape(a.shape[0], -1) for a in jax.tree.leaves(gradients)], axis=1)
    spread = float(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    return estimate(np.sqrt(spread / batch), "(2)", f"{len(rows)} rows at one point")


def lower_constants(problem: Bilevel, points: list[PyTree], rows: PyTree, spec: PyTree, batch: int) -> LowerConstants:
    """mu_h, L_h, L_x and sigma of a client's h on its `rows`, at y in `points` and x = the first of them."""
    x, key, gradient = points[0], keys.root(0), jax.grad(problem.h, argnums=1)
    singles = jax.vmap(lambda row: gradient(x, x, trees.map(lambda a: a[None], row), spec))(rows)

    def h(y: PyTree) -> Float[Array, ""]:
        return problem.h(x, y, rows, spec)

    return LowerConstants(
        strong_convexity(h, points, key),
        gradient_smoothness(h, points, key),
        cross_sensitivity(lambda p: gradient(p, x, rows, spec), points[:1], key),
        gradient_noise(singles, batch),
    )


def coupling_constants(f2: Coupling, pairs: Iterable[tuple[PyTree, PyTree]], spec: PyTree) -> CouplingConstants:
    """L0_y and L0_x of any f2: the steepest gradient seen at the pairs (x, y)."""
    slopes = jax.jit(lambda x, y: [trees.norm(g) for g in jax.grad(f2, argnums=(0, 1))(x, y, spec)])
    found = np.array([[float(s) for s in slopes(x, y)] for x, y in pairs])
    note = f"gradients at {len(found)} points; the true constant is at least this"
    in_x, in_y = (estimate(column.max(), "(2)", note) for column in found.T)
    return CouplingConstants(in_y, in_x, of_difference=False)
