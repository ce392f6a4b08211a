"""What all engines share: the state of a federation and the two verbs that move it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, Key, PyTree

from .. import keys
from ..errors import require, whole
from ..federation import Federation, Plan
from ..methods.method import Method, Round


class State(NamedTuple):
    """All memory of a run between two rounds."""

    server: PyTree
    clients: PyTree  # leaves [m, ...]


class Engine(NamedTuple):
    """init(x, federation) -> State;  advance(state, federation, plan, key, first, count) -> (State, Info [count])."""

    name: str
    init: Callable[..., State]
    advance: Callable[..., tuple[State, PyTree]]


def initial_state(method: Method, x: PyTree, federation: Federation) -> State:
    clients = jax.vmap(method.client_init, in_axes=(None, 0))(x, federation.spec)
    return State(jax.tree.map(jnp.array, method.server_init(x)), clients)


def check_federation(method: Method, federation: Federation) -> None:
    """Refuses a federation that the method cannot run on, before anything is traced."""
    if method.needs_server_data and not isinstance(federation.server.size, Tracer):
        rows = int(np.min(federation.server.size))
        require(rows > 0, "server_share", rows, f"{method.name} needs rows at the server", "build(..., server_share=0.3)")


def check_rounds(plan: Plan, first: int, count: int) -> None:
    """Refuses rounds that the plan does not have."""
    whole("first", first, 0)
    whole("count", count, 0)
    rounds = plan.ids.shape[-2]
    hint = f"a plan of {first + count} rounds: make_plan(..., rounds={first + count})"
    require(first + count <= rounds, "count", count, f"must end within the plan's {rounds} rounds; first is {first}", hint)


def round_of(federation: Federation, number: Any, ids: Any, arrived: Any, key: Key[Array, ""]) -> Round:
    view = federation.view(federation.server)
    return Round(number, ids, arrived, federation.clients, view, keys.at(key, number, 0))


class Slice(NamedTuple):
    """A few rounds of a plan, padded to a fixed length so that the last, shorter stretch compiles nothing new."""

    ids: Int[Array, "C S"]
    steps: Int[Array, "C S"]
    arrived: Any

    @classmethod
    def of(cls, plan: Plan, first: int, count: int, capacity: int) -> Slice:
        def part(table: Any) -> Any:
            rows = table[..., first : first + count, :]
            pad = [(0, 0)] * (rows.ndim - 2) + [(0, capacity - count), (0, 0)]
            return np.pad(rows, pad) if isinstance(rows, np.ndarray) else jnp.pad(rows, pad)

        return cls(*(part(table) for table in plan))
