"""The values of f2 at a client's probes: where they lie, what goes up, and what is read from it.

The client has the values; the server gets them, or the models to compute them from, and knows the directions by their key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from ... import trees
from ...problem import Bilevel
from ..method import ClientSpec
from .estimator import Estimator
from .pull import Estimate, measured_share


class Own(NamedTuple):
    key: Key[Array, ""]  # draws v_{i,r}: 8 bytes stand for n numbers


class Values(NamedTuple):
    plus: Float[Array, "K"]  # f2(x + eta v_k, y+); 0 where H_i = 0
    minus: Float[Array, "K"]  # f2(x - eta v_k, y-); 0 where H_i = 0


class Models(NamedTuple):
    plus: PyTree  # y+ [K, n]
    minus: PyTree  # y- [K, n]
    solved: Bool[Array, ""]  # is H_i > 0?


class Slopes(NamedTuple):
    s: Float[Array, "K"]  # (f2(x + eta v_k, y+) - f2(x - eta v_k, y-)) / 2 eta; 0 where H_i = 0


@dataclass(frozen=True, eq=False)
class Probes:
    """What both sides compute alike."""

    problem: Bilevel
    estimator: Estimator

    def read(self, x: PyTree, own: Own, up: Values | Models, spec: ClientSpec) -> Estimate:
        """g_i from one client's values or models, at the server."""
        v = self.estimator.propose(own.key, x, ())
        f2 = up if isinstance(up, Values) else self._values_of(x, v, up, spec)
        g = self.estimator.estimate(self.slopes(f2), v, own.key, None)
        return self.whole(f2, v, g)

    def points(self, x: PyTree, v: PyTree) -> PyTree:
        """x + eta v_k and x - eta v_k, leading axes [2, K]."""
        eta = self.estimator.smoothing
        return trees.map(lambda a, b: jnp.stack([a[None] + eta * b, a[None] - eta * b]), x, v)

    def values(self, points: PyTree, ys: PyTree, spec: ClientSpec) -> Values:
        return Values(*jax.vmap(jax.vmap(lambda x, y: self.problem.f2(x, y, spec)))(points, ys))

    def _values_of(self, x: PyTree, v: PyTree, up: Models, spec: ClientSpec) -> Values:
        ys = trees.map(lambda a, b: jnp.stack([a, b]), up.plus, up.minus)
        return kept(up.solved, self.values(self.points(x, v), ys, spec))

    def slopes(self, f2: Values) -> Float[Array, "K"]:
        if not self.estimator.directions:
            return jnp.zeros(0)
        return (f2.plus - f2.minus) / (2.0 * self.estimator.smoothing)  # Alg. 1, line 8, without n and v

    def whole(self, f2: Values, v: PyTree, g: PyTree) -> Estimate:
        middle = jnp.mean(f2.plus + f2.minus) / 2  # f2 at x, up to O(eta^2)
        stretched = self.estimator.stretched
        share = measured_share(trees.weighted_sum(self.slopes(f2), v), g) if stretched else jnp.ones_like(middle)
        return Estimate(g, middle, share)


def kept(condition: Bool[Array, ""], tree: PyTree) -> PyTree:
    """`tree`, or zeros: a client that made no step says nothing."""
    return trees.where(condition, tree, trees.zeros_like(tree))
