"""The functions of `codistil`, over its parts: what a client does, and what the server does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from ... import keys, trees
from ...federation import View, shown_rows
from ...keys import Tag
from ...problem import Bilevel, Model
from ..descent import Descent, ServerDescent
from ..method import ClientSpec, Opening, Round, Turn
from . import pulls
from .disclosure import Disclosure
from .divergences import Outputs
from .learners import Learner, Lesson, Said, outputs_at, shown_to
from .pulls import Coupling, Predictions, Values

Solve = Callable[[Outputs], tuple[PyTree, Said]]
Value = Callable[[Outputs, Said], Float[Array, ""]]


class Shared(NamedTuple):
    z: Outputs  # x_r's outputs on the rows that are shown [P, C]


class Own(NamedTuple):
    key: Key[Array, ""]  # draws v_{i,r}: 8 bytes stand for P C numbers


class Client(NamedTuple):
    y: PyTree  # whatever the client's learner keeps


class Info(NamedTuple):
    estimate: Float[Array, ""]  # the length of the clients' pull at x_r
    step: Float[Array, ""]  # |x_{r+1} - x_r|


@dataclass(frozen=True, eq=False)
class Rules:
    """The functions of the method, over its parts."""

    problem: Bilevel
    model: Model
    learner: Learner
    descent: ServerDescent
    coupling: Coupling
    mu: float | Float[Array, ""]
    estimator: str
    smoothing: float
    directions: int
    rows: int  # P
    apart: bool  # has the server no labels of the rows that it shows?
    disclosure: Disclosure

    def broadcast(self, server: Descent, opening: Opening) -> Shared:
        return Shared(outputs_at(self.model, server.x, shown_rows(opening.view, self.rows)))

    def local(
        self, client: Client, shared: Shared, own: Own | tuple[()], view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client, Predictions | Values]:
        known, z = shown_to(view).known, shared.z

        def solve(z: Outputs) -> tuple[PyTree, Said]:
            y, said = self._learn(client.y, z, view, spec, turn, Tag.SOLVE)  # the same draws in every solve
            return y, self.disclosure.of(said, turn.key)

        def value(z: Outputs, said: Said) -> Float[Array, ""]:
            return self.coupling.value(said, z, spec)

        if isinstance(own, Own):
            return self._values(own, z, known, solve, value)
        y, said = solve(z)
        if self.estimator == "first_order":
            return Client(y), Predictions(said, ())
        v = pulls.away(z, said)
        eta = self.smoothing * pulls.root_of_size(known, z)
        probes = jnp.stack([z + eta * v, z - eta * v])
        plus, minus = jax.vmap(value)(probes, jax.vmap(solve)(probes)[1])
        slope = jnp.vdot(jax.grad(value)(z, said), v)
        return Client(y), Predictions(said, jnp.where(turn.steps > 0, (plus - minus) / (2.0 * eta) - slope, 0.0))

    def aggregate(
        self, server: Descent, owns: Own | tuple[()], ups: Predictions | Values, specs: PyTree, round: Round
    ) -> tuple[Descent, Info]:
        shown = shown_rows(round.view, self.rows)
        z = outputs_at(self.model, server.x, shown)
        total = pulls.total(self.coupling, ups, owns, z, shown.known, specs, round.arrived, self.smoothing)

        def pull(x: PyTree) -> PyTree:
            outputs, back = jax.vjp(lambda x: outputs_at(self.model, x, shown), x)
            return back(total(outputs))[0]

        after = self.descent.step(self.problem.server_loss, server, pull, self._labelled(round.view), round.round, round.key)
        return after, Info(trees.norm(pull(server.x)), trees.norm(trees.sub(after.x, server.x)))

    def personal_model(self, client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        return self._learn(client.y, outputs_at(self.model, x, shown_to(view)), view, spec, turn, Tag.PERSONAL)[0]

    def coupled(self, y: PyTree, x: PyTree, view: View, spec: ClientSpec) -> Array:
        predict, shown = self.learner.predict, shown_to(view)
        outputs = outputs_at(self.model, y, shown) if predict is None else predict(y, view)(shown.inputs)
        return self.coupling.value(Said(outputs, shown.known), outputs_at(self.model, x, shown), spec)

    def _learn(self, y: PyTree, z: Outputs, view: View, spec: ClientSpec, turn: Turn, tag: Tag) -> tuple[PyTree, Said]:
        return self.learner.learn(y, Lesson(z, self.mu), view, spec, turn, keys.at(turn.key, tag))

    def _values(self, own: Own, z: Outputs, known: Array, solve: Solve, value: Value) -> tuple[Client, Values]:
        """2 K values of f2, at the two ends of each direction; the client keeps the model of the last solve."""
        eta = self.smoothing * pulls.root_of_size(known, z)
        v = jax.vmap(lambda k: pulls.direction(keys.at(own.key, k), z, known))(jnp.arange(self.directions))
        probes = jnp.concatenate([z[None] + eta * v, z[None] - eta * v])
        ys, said = jax.vmap(solve)(probes)
        f2 = jax.vmap(value)(probes, said)
        return Client(trees.take(ys, -1)), Values(f2[: self.directions], f2[self.directions :])

    def _labelled(self, view: View) -> View:
        """The server's rows with labels: all, or those that are not shown."""
        if not self.apart:
            return view
        shown = jnp.minimum(self.rows, view.size - 1)
        return view._replace(start=view.start + shown, size=view.size - shown)
