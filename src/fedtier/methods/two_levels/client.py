"""What a client does in ZO-HFL: solves at its probes, the values or the estimate that it sends, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from ... import keys, trees
from ...federation import View, largest_divisor, rows_at_once
from ...keys import Tag
from ...problem import Bilevel
from ..method import ClientSpec, Turn
from ..solvers import LowerLevel, ProjectedSgd
from .estimator import ClientSide, Estimator
from .probes import Models, Own, Probes, Slopes, Values, kept
from .pull import Estimate
from .server import Shared


class Client(NamedTuple):
    y: PyTree  # start = "warm": mean of the last solutions [n]; else ()
    guides: PyTree  # the last displacements x - y, the latest first [guides, n]; () without guides


@dataclass(frozen=True, eq=False)
class AtClient:
    """The functions of a client, over the method's parts."""

    problem: Bilevel
    estimator: Estimator
    probes: Probes
    solver: ProjectedSgd
    personal: LowerLevel
    coupled: bool
    models: bool  # do the models go up?
    warm: bool  # do solves start at the client's last solution?
    common: bool  # are the directions those of the round, so that slopes are enough?

    def init(self, x: PyTree, spec: ClientSpec) -> Client:
        kept = self.estimator.guides
        guides = trees.map(lambda a: jnp.zeros((kept, *a.shape), a.dtype), x) if kept else ()
        return Client(x if self.warm else (), guides)

    def local(
        self, client: Client, shared: Shared, own: Own | tuple[()], view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client, Values | Models | Estimate | Slopes]:
        x, K, key = shared.x, self.estimator.directions, keys.at(turn.key, Tag.SOLVE)
        drawn = own.key if isinstance(own, Own) else shared.key
        solve, factor = self.solver.solver(self.problem), self.solver.factor(self.problem, x, x, view, spec, key)

        def solve_at(point: PyTree, draw: ArrayLike, steps: ArrayLike) -> PyTree:
            first = client.y if self.warm else point
            return solve(point, first, view, spec, steps, key if self.coupled else keys.at(key, draw), factor)

        if K:
            v = self.estimator.propose(drawn, x, self._guides(client, shared))
            points = self.probes.points(x, v)
            ys = self._solved(lambda point, draw: solve_at(point, draw, turn.steps), points, x, view, spec)
            f2, y = self.probes.values(points, ys, spec), trees.map(lambda a: jnp.mean(a, axis=(0, 1)), ys)
        else:
            v, y = (), solve_at(x, 0, 2 * turn.steps)  # the budget of two
            f2 = Values(*[self.problem.f2(x, y, spec)[None]] * 2)
        after = self._remember(client, x, y, turn)
        solved = turn.steps > 0
        if self.common:
            return after, kept(solved, Slopes(self.probes.slopes(f2)))
        if not self.estimator.private:
            up = Models(trees.take(ys, 0), trees.take(ys, 1), solved) if self.models else kept(solved, f2)
            return after, up
        side = ClientSide(self.problem, x, y, view, spec, keys.at(turn.key, Tag.HESSIAN))
        g = self.estimator.estimate(self.probes.slopes(f2), v, drawn, side)
        return after, kept(solved, self.probes.whole(f2, v, g))

    def _solved(
        self, solve: Callable[[PyTree, ArrayLike], PyTree], points: PyTree, x: PyTree, view: View, spec: ClientSpec
    ) -> PyTree:
        """solve(point, its number) at all points [2, K, n], together; our own solver at as many as fit a core's caches."""
        many, batch = 2 * self.estimator.directions, self.solver.batch
        numbered = (trees.map(lambda a: a.reshape(many, *a.shape[2:]), points), jnp.arange(many))
        fit = many * batch
        if self.problem.solve is None:
            fit = rows_at_once(lambda rows: self.problem.h(x, x, rows, spec), view.arrays, fit)
        together = largest_divisor(many, max(1, fit // batch))
        if together == many:
            ys = jax.vmap(solve)(*numbered)
        else:  # one at a time is no batch of one, whose products are slower
            ys = jax.lax.map(lambda one: solve(*one), numbered, batch_size=together if together > 1 else None)
        return trees.map(lambda a: a.reshape(2, -1, *a.shape[1:]), ys)

    def personal_model(self, client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        first = client.y if self.warm else x
        return self.personal(x, first, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    def _guides(self, client: Client, shared: Shared) -> PyTree:
        """The guides that the estimator asked for, leading axis."""
        if not self.estimator.served:
            return client.guides
        first = trees.map(lambda a: a[None], shared.guide)
        return trees.map(lambda a, b: jnp.concatenate([a, b]), first, client.guides) if self.estimator.guides else first

    def _remember(self, client: Client, x: PyTree, y: PyTree, turn: Turn) -> Client:
        """The client's memory after a solve; with H_i = 0 it stays."""

        def newer(old: Array, new: Array) -> Array:
            return jnp.where(turn.steps > 0, jnp.concatenate([new[None], old[:-1]]), old)

        guides = trees.map(newer, client.guides, trees.sub(x, y)) if self.estimator.guides else ()
        return client._replace(y=trees.where(turn.steps > 0, y, client.y) if self.warm else (), guides=guides)
