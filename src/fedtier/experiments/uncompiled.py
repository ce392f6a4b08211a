"""Which engine runs an experiment: the compiled one, or with a black box at the clients one that calls plain Python.

Then the messages engine plays one seed after the other; the server's part is compiled all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from .. import trees
from ..engines import Engine, Measure, State, compiled, messages
from ..engines.engine import Number
from ..engines.layout import layout_of_plan
from ..federation import Federation, Plan
from .assemble import Experiment


def engine_of(experiment: Experiment, capacity: int) -> Engine:
    """The engine for all seeds of the experiment."""
    magnitude = experiment.config.run.magnitude
    if experiment.config.privacy.kind == "clients":  # replies are clipped, and none may decide whether another one counts
        magnitude = float("inf")
    if experiment.compiles:
        plan = experiment.plan
        numbers = trees.size(experiment.x) // len(plan.steps)
        layout = layout_of_plan(np.asarray(plan.steps), numbers)
        return compiled(
            experiment.method, capacity=capacity, layout=layout, seeds=True, magnitude=magnitude, history=plan.history
        )
    return _over_seeds(messages(experiment.method, jit="server", magnitude=magnitude, history=experiment.plan.history))


def _over_seeds(engine: Engine) -> Engine:
    """An engine of one seed for states, federations, plans and keys with a leading axis, one row per seed."""

    def of(tree: PyTree, s: int) -> PyTree:
        return trees.map(lambda a: a[s], tree)

    def seed_of(federation: Federation, s: int) -> Federation:
        return of(federation._replace(arrays=()), s)._replace(arrays=federation.arrays)

    def init(x: PyTree, federation: Federation) -> State:
        return trees.stack([engine.init(of(x, s), seed_of(federation, s)) for s in range(_seeds(x))])

    def advance(
        state: State, federation: Federation, plan: Plan, key: Key[Array, "seeds"], first: int, count: int
    ) -> tuple[State, PyTree]:
        if count == 0:
            return state, ()
        every = [
            engine.advance(of(state, s), seed_of(federation, s), of(plan, s), key[s], first, count) for s in range(len(key))
        ]
        states, infos = zip(*every, strict=True)
        return trees.stack([*states]), trees.stack([*infos])

    def evaluate(
        state: State,
        federation: Federation,
        key: Key[Array, "seeds"],
        number: Number,
        steps: np.ndarray | Array,
        measure: Measure,
        chosen: np.ndarray | Sequence[int],
    ) -> tuple[PyTree, PyTree]:
        every = [
            engine.evaluate(of(state, s), seed_of(federation, s), key[s], number, steps, measure, chosen)
            for s in range(len(key))
        ]
        return trees.map(lambda *leaves: np.stack(leaves), *every)

    return Engine("plain Python", init, advance, evaluate)


def _seeds(x: PyTree) -> int:
    return jax.tree.leaves(x)[0].shape[0]
