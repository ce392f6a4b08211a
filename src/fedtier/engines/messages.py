"""The messages engine: the wire's driver and sites in one process, every message through the codec.

What a wire would carry, without the wire: use it to see what is sent, to step through a method in a debugger
(`jit=False`), and to check that a method survives being cut into messages. Slow by design.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..compilation import jitted
from ..errors import NOTHING, FedtierError
from ..federation import Federation, Plan
from ..methods.method import Method
from ..protocol import Driver, Job, Ledger, Memory, Player, Rules, Site, loopback, message_shapes
from ..protocol.shapes import Shapes
from .engine import Engine, State, check_federation, check_rounds, initial_state

RUN = bytes(16)  # one run, one process: no other could be meant


def messages(method: Method, *, jit: bool = True) -> Engine:
    """The engine for `method`; with `jit=False` every line runs as plain Python over arrays."""
    local = jitted(method.local)

    def site(federation: Federation, shapes: Shapes, state: PyTree, client: int) -> Site:
        view = federation.view(trees.take(federation.train, client))
        spec = trees.take(federation.spec, client)
        player = Player(
            x=(), shared=shapes.shared, own=shapes.own, rows=1, held=0, init=lambda x: state,
            play=lambda state, shared, own, turn, weight: local(state, shared, own, view, spec, turn),
        )  # fmt: skip
        return Site(str(client), lambda brief, client: player, Memory(None))

    def advance(state: State, federation: Federation, plan: Plan, key: Any, first: int, count: int) -> tuple[State, PyTree]:
        check_rounds(plan, first, count)
        one = trees.take(state.clients, 0), federation.view(federation.server), trees.take(federation.spec, 0)
        shapes = message_shapes(method, state.server, *one, federation.clients)
        names = tuple(str(i) for i in range(federation.clients))
        asked = np.unique(np.asarray(plan.ids)[first : first + count]).tolist()
        sites = {i: site(federation, shapes, trees.take(state.clients, i), i) for i in asked}
        job = Job(RUN, names, method, plan, key, federation.view(federation.server), lambda rows: federation.spec, shapes.up)
        rules = Rules(start=max(1, len(sites)), quorum=1.0, magnitude=float("inf"))
        ask = loopback({names[i]: one.respond for i, one in sites.items()})
        infos, ledger = [], Ledger.first(state.server, len(names))
        with contextlib.nullcontext() if jit else jax.disable_jit():
            driver = Driver(job, ask, rules, note=_raise)
            driver.greet(sites, ledger)
            for number in range(first, first + count):
                ledger, info = driver.play_round(ledger, number)
                infos.append(info)
        after = state.clients
        for i, one in sites.items():
            now = one.settled(int(ledger.last[i]))
            after = trees.map(lambda all, row, i=i: all.at[i].set(row), after, now)
        return State(ledger.server, after), trees.stack(infos) if infos else ()

    def init(x: PyTree, federation: Federation) -> State:
        check_federation(method, federation)
        return initial_state(method, x, federation)

    return Engine("messages", init, advance)


def _raise(line: str) -> None:
    """In one process nobody is late: whatever the driver has to note is a fault of the method."""
    raise FedtierError("messages", NOTHING, line)
