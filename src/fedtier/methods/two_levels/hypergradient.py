"""The gradient of x -> f2(x, y_i(x)) where h is twice differentiable and no constraint is active.

    grad = grad_x f2 - (d2h/dx dy)^T (d2h/dy2)^-1 grad_y f2                 (implicit function theorem)

For the quadratic coupling and h = loss + mu/2 |x - y|^2 this is lambda (I - J)^T (x - y) with J = mu (Hess + mu I)^-1. The
linear system is solved by conjugate gradients on Hessian-vector products: no matrix is formed. It is the oracle that the
zeroth-order estimates are measured against. It is wrong where a constraint is active (y_i(.) then has another
derivative, or none), and impossible where the client's solver is a black box: the two cases the others are for.
"""

from __future__ import annotations

import jax
from jax.scipy.sparse.linalg import cg
from jaxtyping import PyTree

from ... import trees
from ...federation import sample
from ...problem import second_slopes
from .estimator import ClientSide

ROWS = 1024  # rows that stand for the client's data in second derivatives
ITERATIONS = 20  # of conjugate gradients


def partial_gradient(client: ClientSide) -> PyTree:
    """grad_x f2(x, y) with y held fixed: lambda weight (x - y) for the quadratic coupling. Biased by J^T grad_y f2."""
    return jax.grad(client.problem.f2)(client.x, client.y, client.spec)


@second_slopes()
def hypergradient(client: ClientSide) -> PyTree:
    """The hypergradient at (x, y) on ROWS rows of the client, after at most ITERATIONS of conjugate gradients."""
    problem, batch = client.problem, sample(client.view, client.key, ROWS)

    def slope(x: PyTree, y: PyTree) -> PyTree:
        return jax.grad(problem.h, argnums=1)(x, y, batch, client.spec)

    def hessian_times(v: PyTree) -> PyTree:
        return jax.jvp(lambda y: slope(client.x, y), (client.y,), (v,))[1]

    gx, gy = jax.grad(problem.f2, argnums=(0, 1))(client.x, client.y, client.spec)
    z, _ = cg(hessian_times, gy, maxiter=ITERATIONS)
    _, pull = jax.vjp(lambda x: slope(x, client.y), client.x)
    return trees.sub(gx, pull(z)[0])
