"""Constants of problems without a closed form, measured at sampled points by Lanczos' method and finite differences.

Every result is an `estimate`: a Lipschitz constant found this way is too small, a strong convexity constant too large, because
only a few points were seen. One sampled point with negative curvature, however, refutes strong convexity for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..problem import Bilevel, second_slopes
from ..problem.couplings import Coupling
from .constants import CouplingConstants, LowerConstants
from .numbers import Number, absent, estimate

DIGITS = 1e-3  # of an eigenvalue, relative
SPACE = 20  # vectors that Lanczos' method works with; smaller matrices are written out
RESTARTS = 20

ScalarFunction = Callable[[PyTree], Float[Array, ""]]
Ends = tuple[float, float]  # the least and the largest eigenvalue
NONE: Ends = (np.nan, np.nan)


@second_slopes()
def curvature(f: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> list[Ends]:
    """The ends of the spectrum of f's Hessian at each point."""
    product = jax.jit(lambda x, u: jax.jvp(jax.grad(f), (x,), (u,))[1])
    return [_ends(lambda u, x=x: product(x, u), x, keys.at(key, k)) for k, x in enumerate(points)]


@second_slopes()
def sensitivity(G: Callable[[PyTree], PyTree], x: PyTree, key: Key[Array, ""]) -> float:
    """The norm of the Jacobian J of the map G at x, from the largest eigenvalue of J^T J."""

    @jax.jit
    def product(u: PyTree) -> PyTree:
        _, pull = jax.vjp(G, x)
        return pull(jax.jvp(G, (x,), (u,))[1])[0]

    return max(0.0, _ends(product, x, key)[1]) ** 0.5


def _ends(product: Callable[[PyTree], PyTree], like: PyTree, key: Key[Array, ""]) -> Ends:
    """The ends of the spectrum of the symmetric matrix that `product` multiplies by; not a number where a product is not."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # scipy comes with jax

    start, unravel = ravel_pytree(keys.normal(key, like))
    n = start.size

    def times(v: np.ndarray) -> np.ndarray:
        return np.asarray(ravel_pytree(product(unravel(jnp.asarray(v.ravel(), start.dtype))))[0], np.float64)

    if n <= SPACE:
        found = np.array([times(column) for column in np.eye(n)])
        return _extremes(np.linalg.eigvalsh((found + found.T) / 2)) if np.all(np.isfinite(found)) else NONE
    once = times(np.asarray(start))
    if not np.all(np.isfinite(once)):
        return NONE
    if not np.any(once):  # the matrix of zeros
        return 0.0, 0.0
    v0 = np.asarray(start, np.float64)
    shift = float(np.linalg.norm(once) / np.linalg.norm(v0))  # ARPACK begins in the range of its matrix: it would miss a 0
    moved = LinearOperator((n, n), matvec=lambda v: times(v) + shift * v.ravel(), dtype=np.float64)  # pyright: ignore[reportCallIssue]  its __new__

    def seek(which: str, count: int, digits: float, restarts: int) -> np.ndarray:
        how = {"v0": v0, "ncv": SPACE, "tol": digits, "maxiter": restarts, "return_eigenvectors": False}
        return np.asarray(eigsh(moved, count, which=which, **how)) - shift

    try:
        return _extremes(seek("BE", 2, DIGITS, RESTARTS))
    except ArpackNoConvergence:  # an end that lies close to others is slow: each by itself, to fewer digits
        return _extremes(np.concatenate([seek(end, 1, 30 * DIGITS, 10 * RESTARTS) for end in ("SA", "LA")]))


def _extremes(found: np.ndarray) -> Ends:
    return float(found.min()), float(found.max())


def gradient_smoothness(f: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """The Lipschitz constant of grad f: the largest |eigenvalue| seen."""
    return _smoothness(curvature(f, points, key))


def _smoothness(found: list[Ends]) -> Number:
    largest = max(max(map(abs, ends)) for ends in found)
    return estimate(largest, "(2)", f"Lanczos' method at {len(found)} points; the true constant is at least this")


def strong_convexity(h: ScalarFunction, points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """mu_h: the least eigenvalue seen; `absent`, with the curvature that was seen, once one is not positive."""
    return _convexity(curvature(h, points, key))


def _convexity(found: list[Ends]) -> Number:
    lows = [low for low, _ in found]
    least = min(lows)
    if least <= 1e-6 * max(1.0, abs(max(lows))):
        return absent(min(least, 0.0), "(2)", f"h has curvature {least:.3g} at a sampled point: it is not strongly convex")
    return estimate(least, "(2)", f"Lanczos' method at {len(found)} points; the true constant is at most this")


def cross_sensitivity(gradient: Callable[[PyTree], PyTree], points: Iterable[PyTree], key: Key[Array, ""]) -> Number:
    """L_x: how fast grad_y h moves with x; `gradient` maps x to grad_y h(x, y) at a fixed y."""
    found = [sensitivity(gradient, x, keys.at(key, k)) for k, x in enumerate(points)]
    return estimate(max(found), "(2)", f"Lanczos' method at {len(found)} points; the true constant is at least this")


def gradient_noise(gradients: PyTree, batch: int) -> Number:
    """sigma of a minibatch of `batch` rows, from the gradients of single rows (leading axis: rows) at one point."""
    rows = np.concatenate([np.asarray(a, np.float64).reshape(a.shape[0], -1) for a in jax.tree.leaves(gradients)], axis=1)
    spread = float(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    return estimate(np.sqrt(spread / batch), "(2)", f"{len(rows)} rows at one point")


def lower_constants(problem: Bilevel, points: list[PyTree], rows: PyTree, spec: PyTree, batch: int) -> LowerConstants:
    """mu_h, L_h, L_x and sigma of a client's h on its `rows`, at y in `points` and x = the first of them."""
    x, key, gradient = points[0], keys.root(0), jax.grad(problem.h, argnums=1)
    singles = jax.jit(jax.vmap(lambda row: gradient(x, x, trees.alone(row), spec)))(rows)
    found = curvature(lambda y: problem.h(x, y, rows, spec), points, key)
    return LowerConstants(
        _convexity(found),
        _smoothness(found),
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
