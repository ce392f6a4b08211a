"""Control: subtract from the slopes what is known of the hypergradient, so that only the rest is left to chance.

    g = d + inner estimate of (s_k - <d, v_k>),   d = grad_x f2(x, y)            the rest is J^T grad_y f2

The mean of g is that of the inner estimator where d does not depend on the directions. Here y is the mean of the solutions at
the probes, so this holds where y(.) is affine between them: h quadratic and no constraint, or a face of a polyhedron that stays
active. Elsewhere y moves with v, and for `sphere` the mean is off by E (I - n v v^T) d(v): of order eta^2 where y(.) is smooth,
more where a constraint starts to hold between the probes.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, Key, PyTree

from ... import trees
from .estimator import ClientSide, Estimator, at_client
from .hypergradient import partial_gradient


def controlled(inner: Estimator) -> Estimator:
    """`inner` with control; the client knows d, so it forms g and sends it."""

    def estimate(slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], client: ClientSide | None) -> PyTree:
        d = partial_gradient(at_client(client))
        expected = jax.vmap(lambda direction: trees.dot(d, direction))(v)
        return trees.add(d, inner.estimate(slopes - expected, v, key, client))

    return inner._replace(name=f"{inner.name} + control", private=True, common=False, estimate=estimate)
