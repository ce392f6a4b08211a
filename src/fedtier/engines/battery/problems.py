"""What every problem must be: four functions that fit together, and a projection that is one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ... import trees
from ...problem import Bilevel, Spec
from .claims import TOLERANCE, Claim, close, raise_broken, same_shapes, tried


def check_problem(problem: Bilevel, x: PyTree, rows: PyTree, spec: PyTree = None) -> None:
    """Raises AssertionError that lists every claim of `problem_claims` that does not hold."""
    raise_broken(problem_claims(problem, x, rows, spec))


def problem_claims(problem: Bilevel, x: PyTree, rows: PyTree, spec: PyTree = None) -> list[Claim]:
    """Checks the four functions at x, at a point beside it, on `rows`, for one client's `spec`."""
    spec = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(())) if spec is None else spec
    y = trees.map(lambda a: a + jnp.linspace(-1.0, 1.0, a.size, dtype=a.dtype).reshape(a.shape), x)
    z = trees.map(lambda a: a - 0.3 * jnp.cos(jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape), x)

    def scalar(value: Array) -> None:
        assert jnp.shape(value) == (), f"shape {jnp.shape(value)}, must be a scalar"
        assert bool(jnp.isfinite(value)), f"value {value} is not finite"

    def project(point: PyTree) -> PyTree:
        return problem.Y.project(point, x, spec)

    def gradient_fits() -> None:
        gradient = jax.grad(problem.h, argnums=1)(x, y, rows, spec)
        same_shapes(gradient, y, "grad_y h")
        assert bool(trees.all_finite(gradient)), "grad_y h is not finite"

    def feasible() -> None:
        assert bool(problem.Y.contains(project(y), x, spec)), "a projected point is not in Y"

    def idempotent() -> None:
        close(project(project(y)), project(y), "projecting twice")

    def non_expansive() -> None:
        before, after = trees.norm(trees.sub(y, z)), trees.norm(trees.sub(project(y), project(z)))
        assert float(after) <= float(before) * (1 + TOLERANCE), f"two points {before:.4g} apart project to {after:.4g} apart"

    return tried(
        ("f1(x, rows) is a finite scalar", lambda: scalar(problem.f1(x, rows))),
        ("f2(x, y, spec) is a finite scalar", lambda: scalar(problem.f2(x, y, spec))),
        ("h(x, y, rows, spec) is a finite scalar", lambda: scalar(problem.h(x, y, rows, spec))),
        ("h has a finite gradient in y", gradient_fits),
        ("Y.project gives a point of Y", feasible),
        ("Y.project twice is once", idempotent),
        ("Y.project moves no two points apart", non_expansive),
    )
