"""The messages engine: the same functions, client by client, every message through the codec.

What a wire would carry, without the wire: use it to see what is sent, to step through a method in a debugger
(`jit=False`), and to check that a method survives being cut into messages. Slow by design.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .. import trees
from ..federation import Federation, Plan
from ..methods.method import Method
from .codec import Down, decode, encode
from .devices import compiler_options
from .engine import Engine, State, check_federation, initial_state, round_of, turn_of


def messages(method: Method, *, jit: bool = True) -> Engine:
    """The engine for `method`; with `jit=False` every line runs as plain Python over arrays."""
    local, aggregate = method.local, method.aggregate
    if jit:
        local, aggregate = (jax.jit(f, compiler_options=compiler_options()) for f in (local, aggregate))

    def play(state: State, federation: Federation, plan: Plan, key: Any, number: int) -> tuple[State, PyTree]:
        ids, steps, arrived = (jnp.asarray(table[number]) for table in plan)
        round_number = jnp.asarray(number)
        round = round_of(federation, round_number, ids, arrived, key)
        shared = method.broadcast(state.server, round)
        owns, ups, clients = [], [], state.clients
        for seat, client in enumerate(ids):
            turn = turn_of(round_number, client, steps[seat], key)
            own = method.address(state.server, turn)
            down = Down(shared, own, turn)
            got = _sent(down)
            view = federation.view(trees.take(federation.train, client))
            spec = trees.take(federation.spec, client)
            after, up = local(trees.take(clients, client), got.shared, got.own, view, spec, got.turn)
            owns.append(own)
            ups.append(_sent(up))
            if arrived[seat]:
                clients = trees.map(lambda all, one, i=client: all.at[i].set(one), clients, after)
        specs = trees.take(federation.spec, ids)
        server, info = aggregate(state.server, trees.stack(owns), trees.stack(ups), specs, round)
        return State(server, clients), info

    def advance(state: State, federation: Federation, plan: Plan, key: Any, first: int, count: int) -> tuple[State, PyTree]:
        infos = []
        with contextlib.nullcontext() if jit else jax.disable_jit():
            for number in range(first, first + count):
                state, info = play(state, federation, plan, key, number)
                infos.append(info)
        return state, trees.stack(infos) if infos else ()

    def init(x: PyTree, federation: Federation) -> State:
        check_federation(method, federation)
        return initial_state(method, x, federation)

    return Engine("messages", init, advance)


def _sent(message: PyTree) -> PyTree:
    return trees.map(jnp.asarray, decode(encode(message), like=message))
