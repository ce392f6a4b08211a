"""The messages engine: the wire's driver and sites in one process, every message through the codec.

What a wire would carry, without the wire: use it to see what is sent, to step through a method in a debugger
(`jit=False`), and to check that a method survives being cut into messages. Slow by design.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from .. import trees
from ..compilation import jitted
from ..errors import NOTHING, FedtierError, whole
from ..federation import Federation, Plan
from ..methods.method import Method, Turn, turn_of
from ..protocol import Ask, Driver, Job, Ledger, Letters, Memory, Player, Rules, Site, letters, loopback, message_shapes
from ..protocol.letters import Kind
from ..protocol.shapes import Shapes
from .engine import (
    Engine,
    Measure,
    Number,
    State,
    check_chosen,
    check_federation,
    check_history,
    check_rounds,
    initial_state,
    replies_of,
)
from .replies import MAGNITUDE, Replies, check_magnitude, judged, length

RUN = bytes(16)  # one run, one process: no other could be meant

_length, _judged = jax.jit(length), jax.jit(judged)


def messages(method: Method, *, jit: bool | Literal["server"] = True, magnitude: float = MAGNITUDE, history: int = 1) -> Engine:
    """The engine for `method`; with `jit=False` every line runs as plain Python over arrays, with "server" the clients' part
    alone does, for what has no compiled form. `magnitude`: see `replies`; `history`: as in `compiled`."""
    check_magnitude(magnitude)
    whole("history", history)
    engine = _Messages(method, jit, magnitude, history)
    return Engine("messages", engine.init, engine.advance, engine.evaluate)


class _Messages:
    def __init__(self, method: Method, jit: bool | Literal["server"], magnitude: float, history: int) -> None:
        self.method, self.jit, self.magnitude, self.history = method, bool(jit), magnitude, history
        self._local = method.local if jit == "server" else jitted(method.local)

    def init(self, x: PyTree, federation: Federation) -> State:
        check_federation(self.method, federation)
        return initial_state(self.method, x, federation, self.history)

    def advance(
        self, state: State, federation: Federation, plan: Plan, key: Key[Array, ""], first: int, count: int
    ) -> tuple[State, PyTree]:
        check_rounds(plan, first, count)
        check_history(self.method, plan, state, first, count)
        method, view = self.method, federation.view(federation.server)
        one = trees.take(state.clients, 0), view, trees.take(federation.spec, 0)
        shapes = message_shapes(method, state.server, *one, federation.clients)
        names = tuple(str(i) for i in range(federation.clients))
        asked = np.unique(np.asarray(plan.ids)[first : first + count]).tolist()
        desk = _Desk(replies_of(state), self.magnitude)
        sites = {i: self._site(federation, shapes, trees.take(state.clients, i), i, desk, plan) for i in asked}
        job = Job(RUN, names, method, plan, key, view, lambda rows: federation.spec, shapes.up)
        rules = Rules(start=max(1, len(sites)), quorum=1.0, magnitude=float("inf"))
        ask = desk.judging(loopback({names[i]: desk.declining(one.respond) for i, one in sites.items()}))
        infos, ledger = [], Ledger.first(state.server, len(names))
        with self._plainly():
            driver = Driver(job, ask, rules, note=_raise, broadcasts=state.ring)
            driver.greet(sites, ledger)
            for number in range(first, first + count):
                ledger, info = driver.play_round(ledger, number)
                infos.append(info)
        after = state.clients
        for i, one in sites.items():
            now = one.settled(int(ledger.last[i]))
            after = trees.map(lambda all, row, i=i: all.at[i].set(row), after, now)
        return State(ledger.server, after, desk.replies, driver.ring), trees.stack(infos) if infos else ()

    def _site(self, federation: Federation, shapes: Shapes, state: PyTree, client: int, desk: _Desk, plan: Plan) -> Site:
        view = federation.view(trees.take(federation.train, client))._replace(shown=federation.shown(self.method.shows))
        spec = trees.take(federation.spec, client)
        player = Player(
            x=(), shared=shapes.shared, own=shapes.own, rows=1, held=0, init=lambda x: state,
            play=lambda state, shared, own, turn, weight: desk.measured(
                client, self._local(state, shared, own, view, spec, _began(turn, plan))
            ),
        )  # fmt: skip
        return Site(str(client), lambda brief, client: player, Memory(None))

    def evaluate(
        self, state: State, federation: Federation, key: Key[Array, ""], number: Number,
        steps: Int[np.ndarray, "c"] | Int[Array, "c"], measure: Measure, chosen: Int[np.ndarray, "c"] | Sequence[int],
    ) -> tuple[PyTree, PyTree]:  # fmt: skip
        who = check_chosen(federation, chosen, steps)
        x, shown = self.method.global_model(state.server), federation.shown(self.method.shows)

        def of(i: int, steps: Int[Array, ""]) -> PyTree:
            client, train, held, spec = (
                trees.take(a, i) for a in (state.clients, federation.train, federation.held, federation.spec)
            )
            turn = turn_of(jnp.asarray(number, jnp.int32), jnp.asarray(i, jnp.int32), steps, key)
            told = self.method.briefed(client, state.server, turn)
            seen = federation.view(train)._replace(shown=shown)
            return measure.of_client(told, x, seen, federation.view(held), spec, turn)

        with self._plainly():
            clients = [of(i, jnp.asarray(h)) for i, h in zip(who.tolist(), steps, strict=True)]
            model = measure.of_model(x, federation.view(federation.server), federation.view(federation.test))
        return trees.map(np.asarray, model), trees.map(np.asarray, trees.stack(clients))

    def _plainly(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext() if self.jit else jax.disable_jit()


def _began(turn: Turn, plan: Plan) -> Turn:
    """The turn with the round in which the client began; a letter has the one in which its reply counts."""
    if plan.staleness is None:
        return turn
    seat = np.flatnonzero(np.asarray(plan.ids[int(turn.round)]) == int(turn.client))
    age = int(plan.staleness[int(turn.round), seat[0]]) if len(seat) else 0  # no seat: it compiles, before its first round
    return turn._replace(round=turn.round - age)


class _Desk:
    """Stands between the driver and the sites and withholds the replies that are lost by the rule of `replies`.

    To the driver a site whose reply is withheld has declined: the round goes on without it, and the next letter tells
    the site that it did not count.
    """

    def __init__(self, replies: Replies, magnitude: float) -> None:
        self.replies, self.magnitude = replies, magnitude
        self._lengths: dict[int, float] | None = None  # of this round's replies, by client; None between rounds

    def measured(self, client: int, played: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        """What a client has computed, its length noted; raises _NotFinite before the site could trip over it."""
        if self._lengths is not None:  # else a site compiles before its first round
            self._lengths[client] = float(_length(*played))
            if not np.isfinite(self._lengths[client]):
                raise _NotFinite
        return played

    def declining(self, respond: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def answer(letter: bytes) -> bytes:
            try:
                return respond(letter)
            except _NotFinite:
                return _declined(letter)

        return answer

    def judging(self, ask: Ask) -> Ask:
        def judged_ask(asked: Letters, seconds: float) -> Mapping[str, bytes]:
            heads = {name: letters.unpack(letter, len(letter))[0] for name, letter in asked.own.items()}
            if not {head.kind for head in heads.values()} & {Kind.ROUND, Kind.LOST}:
                return ask(asked, seconds)
            self._lengths = {}
            answers = dict(ask(asked, seconds))
            ids = jnp.asarray([head.client for head in heads.values()], jnp.int32)
            came = jnp.asarray([head.kind == Kind.ROUND for head in heads.values()])
            lengths = jnp.asarray([self._lengths.get(head.client, 0.0) for head in heads.values()], jnp.float32)
            counted, self.replies = _judged(self.replies, lengths, ids, came, self.magnitude)
            self._lengths = None
            withheld = np.asarray(came & ~counted)
            return answers | {name: _declined(asked.own[name]) for name, out in zip(heads, withheld, strict=True) if out}

        return judged_ask


class _NotFinite(Exception):
    """A reply, or the state that goes with it, is not finite."""


def _declined(letter: bytes) -> bytes:
    return letters.pack(letters.unpack(letter, len(letter))[0]._replace(kind=Kind.DECLINED))


def _raise(line: str) -> None:
    """In one process nobody is late, and lost replies are withheld: whatever else the driver notes is a fault of the method."""
    raise FedtierError("messages", NOTHING, line)
