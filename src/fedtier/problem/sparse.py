"""The problem of sparse personal models that are in correlation with the global one (FedMac).

    h_i(x, y) = f_i(y) - lambda <y, x> + ridge/2 |y|^2 + gamma phi(y)            y_i(x) minimises it
    f2(x, y)  = lambda/2 |x|^2 - lambda <x, y> + gamma_w phi(x)                  what x pays, y held fixed
    phi(u)    = rho sum_j log cosh(u_j / rho)                                    near |u|_1 for a small rho, and smooth

The server minimises lambda/2 |x|^2 + gamma_w phi(x) + the least value of h_i(x, y) over y. By the envelope theorem its gradient
is that of f2 in x alone, at y = y_i(x): the parts of h_i without x have none. So f2 serves methods that differentiate it with y
held fixed (`fedmac`); one that differentiates through y_i(x), such as `zo_hfl`, would minimise something else.

With gamma = gamma_w = 0 and ridge = lambda, h_i is f_i(y) + lambda/2 |y - x|^2 but for a term without y: pFedMe's. With
ridge = 0, as published, h_i may have no minimum: where f_i flattens far away, as cross entropy does, -lambda <y, x> falls on.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree, Real

from .. import trees
from ..errors import not_negative, positive
from .bilevel import Bilevel, Loss


def smooth_l1(x: PyTree, width: float) -> Float[Array, ""]:
    """phi(x) = width sum_j log cosh(x_j / width), of all numbers of the tree. Its gradient is tanh(x_j / width)."""

    def leaf(a: Array) -> Array:
        return width * jnp.sum(_log_cosh(a / width))

    return sum(jax.tree.leaves(trees.map(leaf, x)), jnp.zeros(()))


@jax.custom_jvp
def _log_cosh(u: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.logaddexp(u, -u) - math.log(2.0)


@_log_cosh.defjvp
def _(at: tuple[Array], along: tuple[Array]) -> tuple[Array, Array]:  # through logaddexp a gradient takes three times as long
    return _log_cosh(at[0]), jnp.tanh(at[0]) * along[0]


def correlated(
    loss: Loss,
    *,
    proximity: Real[ArrayLike, ""] = 1.0,
    sparsity: Real[ArrayLike, ""] = 0.001,
    shared_sparsity: Real[ArrayLike, ""] = 0.001,
    width: float = 0.01,
    ridge: Real[ArrayLike, ""] = 0.0,
) -> Bilevel:
    """The problem above: lambda = `proximity`, gamma = `sparsity`, gamma_w = `shared_sparsity`, rho = `width`."""
    for name, value in (
        ("proximity", proximity),
        ("sparsity", sparsity),
        ("shared_sparsity", shared_sparsity),
        ("ridge", ridge),
    ):
        not_negative(name, value)
    positive("width", width)

    def h(x: PyTree, y: PyTree, batch: PyTree, spec: PyTree) -> Float[Array, ""]:
        fit = loss(y, batch) - proximity * trees.dot(y, x)
        return fit + 0.5 * ridge * trees.dot(y, y) + sparsity * smooth_l1(y, width)

    def f2(x: PyTree, y: PyTree, spec: PyTree) -> Float[Array, ""]:
        return jnp.asarray(proximity) * (0.5 * trees.dot(x, x) - trees.dot(x, y)) + shared_sparsity * smooth_l1(x, width)

    return Bilevel(f1=loss, f2=f2, h=h)
