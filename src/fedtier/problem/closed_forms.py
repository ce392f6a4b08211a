"""Problems with a closed form, for tests, for teaching and for `fedtier theory`.

The two-level quadratic, with one row of data b ~ (b_i, noise) per draw and a diagonal curvature q_i per client:

    f1(x) = 1/2 |x - a|^2                 a: the mean of the server's rows
    h_i(x, y) = 1/2 (y - b_i)^T diag(q_i) (y - b_i) + mu/2 |y - x|^2
    f2(x, y) = lambda/2 weight_i |x - y|^2

so y_i(x) = (q_i b_i + mu x) / (q_i + mu), and x - y_i(x) = s_i (x - b_i) with s_i = q_i/(q_i + mu).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree, Real

from ..errors import not_negative
from .bilevel import Bilevel
from .couplings import quadratic
from .sets import ConstraintSet, everywhere, orthant

Numbers = Array | np.ndarray


class QuadraticSpec(NamedTuple):
    """The spec of the two-level quadratic; shows what a spec of one's own looks like."""

    weight: Real[ArrayLike, ""]
    radius: Real[ArrayLike, ""]
    step_scale: Real[ArrayLike, ""]
    curvature: Float[Array, "n"]  # q_i


def two_level_quadratic(
    *, penalty: Real[ArrayLike, ""] = 1.0, proximity: Real[ArrayLike, ""] = 1.0, Y: ConstraintSet | None = None
) -> Bilevel:
    """The problem above; a batch is an array of rows [B, n]."""
    not_negative("penalty", penalty)
    not_negative("proximity", proximity)

    def f1(x: Float[Array, "n"], rows: Float[Array, "B n"]) -> Float[Array, ""]:
        return 0.5 * jnp.mean(jnp.sum((x[None] - rows) ** 2, axis=-1))

    def h(x: Float[Array, "n"], y: Float[Array, "n"], rows: Float[Array, "B n"], spec: PyTree) -> Float[Array, ""]:
        fit = 0.5 * jnp.mean(jnp.sum(jnp.reshape(spec.curvature, (1, -1)) * (y[None] - rows) ** 2, axis=-1))
        return fit + 0.5 * proximity * jnp.sum((y - x) ** 2)

    return Bilevel(f1=f1, f2=quadratic(penalty), h=h, Y=Y or everywhere())


class ClosedForm(NamedTuple):
    """What is known about the unconstrained two-level quadratic, given the means of the data. Leading axis m: clients."""

    a: Float[Numbers, "n"]  # mean of the server's rows
    b: Float[Numbers, "m n"]  # means of the clients' rows
    curvature: Float[Numbers, "m n"]
    weight: Float[Numbers, "m"]
    penalty: float
    proximity: float

    def solution(self, x: Float[Numbers, "n"]) -> Float[Numbers, "m n"]:
        """y_i(x) for every client."""
        return (self.curvature * self.b + self.proximity * x[None]) / (self.curvature + self.proximity)

    def implicit(self, x: Float[Numbers, "n"]) -> Float[Numbers, "m"]:
        """f2(x, y_i(x)) for every client."""
        return 0.5 * self.penalty * self.weight * jnp.sum((x[None] - self.solution(x)) ** 2, axis=-1)

    def implicit_gradient(self, x: Float[Numbers, "n"]) -> Float[Numbers, "m n"]:
        """The gradient of x -> f2(x, y_i(x)); equal to that of its smoothed version, because it is quadratic."""
        s = self.curvature / (self.curvature + self.proximity)
        return self.penalty * self.weight[:, None] * s**2 * (x[None] - self.b)

    def gradient(self, x: Float[Numbers, "n"]) -> Float[Numbers, "n"]:
        return (x - self.a) + jnp.mean(self.implicit_gradient(x), axis=0)

    def optimum(self) -> Float[Numbers, "n"]:
        """The x where `gradient` vanishes."""
        s = self.curvature / (self.curvature + self.proximity)
        pull = self.penalty * self.weight[:, None] * s**2
        return (self.a + jnp.mean(pull * self.b, axis=0)) / (1.0 + jnp.mean(pull, axis=0))


def orthant_example() -> Bilevel:
    """The paper's appendix: y(x) = argmin over y >= 0 of |y - x|^2 = max(x, 0), f(x) = 1/2 |x + 1 - y(x)|^2.

    f1 is zero and the batch is ignored. f is not smooth (a kink at 0 in each coordinate) and not convex.
    """
    return Bilevel(
        f1=lambda x, rows: 0.0 * jnp.sum(x),
        f2=lambda x, y, spec: 0.5 * jnp.sum((x + 1.0 - y) ** 2),
        h=lambda x, y, rows, spec: jnp.sum((y - x) ** 2),
        Y=orthant(),
    )
