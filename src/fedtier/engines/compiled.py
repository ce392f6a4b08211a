"""The compiled engine: many rounds of a whole federation as one XLA program.

A loop over rounds; inside it the cohort, one client after another (`map`), all at once (`vmap`) or in chunks sorted by
their local steps (a number). Bounds are traced and the plan arrives padded, so neither growing H, another seed nor a
shorter last stretch compiles anything. Client state is gathered and scattered in place within a call; the caller's own
state stays, so a call holds it twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Device
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from .. import trees
from ..compilation import jitted, precise
from ..errors import choice, require, whole
from ..federation import Federation, Plan, sharing_blocks
from ..methods import ring
from ..methods.method import Method, turn_of, turns_of
from .devices import as_many_as_hold, balance, dealt, everywhere, on_all, total_over
from .engine import (
    Engine,
    Measure,
    Number,
    Slice,
    State,
    check_chosen,
    check_federation,
    check_history,
    check_rounds,
    initial_state,
    replies_of,
    round_of,
)  # fmt: skip
from .layout import Layout, each, layout_for, rows_of
from .replies import MAGNITUDE, check_magnitude, judged, length

JUDGED = 100  # rows that a model judges in the time of a local step, roughly
WORTH = 10**8  # numbers of a model times rows to judge it on: with fewer, sharing takes longer to compile than it saves

Sharing = tuple[Device, ...]  # the devices that share the work; fewer than two: none do


def compiled(
    method: Method,
    *,
    capacity: int = 100,
    layout: Layout = "auto",
    devices: Sequence[Device] | None = None,
    seeds: bool = False,
    magnitude: float = MAGNITUDE,
    history: int = 1,
) -> Engine:
    """The engine for `method`.

    capacity   the most rounds one call may advance
    layout     of a cohort: "map", "vmap", a chunk size, or "auto": vmap on a GPU; on a CPU map, where a batched product is
               slower than several plain ones and nobody waits for the slowest client, but chunks for models so small that
               what counts is the number of operations and not their size (docs/scaling.md)
    devices    share the cohort, or the seeds, among these; by default all there are, or on a CPU as many cores as
               may each hold the clients' state (4 GiB in all). Replies are gathered before they are summed, so the
               result does not depend on how many there are. (): share nothing, as inside `sweep`
    seeds      state, plan, key, federation (but its arrays) and x carry a leading axis, one row per seed
    magnitude  a reply so many times longer than the usual one is lost, as one that is not finite: see `replies`
    history    how many of the latest broadcasts the state of a method with a buffer remembers: plan.history
    """
    whole("capacity", capacity)
    whole("history", history)
    check_magnitude(magnitude)
    if isinstance(layout, int):
        whole("layout", layout)
    else:
        choice("layout", layout, ("auto", "map", "vmap"))
    engine = _Compiled(method, capacity, layout, devices, seeds, magnitude, history)
    return Engine("compiled", engine.init, engine.advance, engine.evaluate)


class _Compiled:
    """The programs of one engine, each made where it is first needed."""

    def __init__(
        self, method: Method, capacity: int, layout: Layout, devices: Sequence[Device] | None, seeds: bool, magnitude: float,
        history: int,
    ) -> None:  # fmt: skip
        self.method, self.capacity, self.layout, self.seeds, self.magnitude = method, capacity, layout, seeds, magnitude
        self.history = history
        self.devices = None if devices is None else tuple(devices)
        self._programs: dict[tuple, Callable[..., PyTree]] = {}
        self._placed: dict[Sharing, tuple[Federation, Federation]] = {}
        self._play = jax.jit(self._round, static_argnames="sharing")  # traced once: for its shapes, then for its place
        self._first_state = jax.jit(self._initial)
        self._taken = jax.jit(self._taken_by)

    # -- init

    def init(self, x: PyTree, federation: Federation) -> State:
        check_federation(self.method, federation)
        return self._first_state(x, federation._replace(arrays=()), federation.arrays if self.method.buffer else ())

    def _initial(self, x: PyTree, federation: Federation, arrays: PyTree) -> State:
        def one(x: PyTree, rest: Federation) -> State:
            return initial_state(self.method, x, rest._replace(arrays=arrays), self.history)

        return jax.vmap(one)(x, federation) if self.seeds else one(x, federation)

    # -- advance

    def advance(
        self, state: State, federation: Federation, plan: Plan, key: Key[Array, "..."], first: int, count: int
    ) -> tuple[State, PyTree]:
        check_rounds(plan, first, count)
        check_history(self.method, plan, state, first, count)
        rule = f"must be at most the engine's capacity, {self.capacity}"
        require(count <= self.capacity, "count", count, rule, f"compiled(method, capacity={count})")
        sharing = as_many_as_hold(state.clients) if self.devices is None else self.devices
        rest = (Slice.of(plan, first, count, self.capacity), key, np.int32(first), np.int32(count))
        inside = _is_traced(state, federation, rest)
        if inside:
            rest = (trees.map(jnp.asarray, rest[0]), *rest[1:])  # a traced round finds its row in an array of JAX alone
        else:
            state, rest = everywhere((state, rest), sharing)
            federation = self._on(federation, sharing)
        program = self._rounds_of_seeds if self.seeds else self._rounds
        state, infos = self._program("advance", program, sharing, inside)(state, federation, *rest)
        if not inside:
            infos = trees.map(np.asarray, infos)  # small; to cut a device's array would compile something for each count
        return state, trees.map(lambda a: a[:, :count] if self.seeds else a[:count], infos)

    def _rounds_of_seeds(
        self, state: State, federation: Federation, rows: Slice, key: Key[Array, "seeds"], first: Number, count: Number,
        sharing: Sharing,
    ) -> tuple[State, PyTree]:  # fmt: skip
        """Devices share the seeds where these keep them as busy as the cohort would: seeds never wait for each other."""
        number, _, size = rows.ids.shape
        by_seed = balance(number, sharing) >= balance(size, sharing)

        def one(member: tuple) -> tuple[State, PyTree]:
            state, rest, rows, key, count = member
            federation_of_seed = rest._replace(arrays=federation.arrays)
            return self._rounds(state, federation_of_seed, rows, key, first, count, () if by_seed else sharing)

        members = (state, federation._replace(arrays=()), rows, key, jnp.broadcast_to(count, number))
        return dealt(lambda members: each(one, members), members, sharing if by_seed else (), idle=_without_rounds)

    def _rounds(
        self, state: State, federation: Federation, rows: Slice, key: Key[Array, ""], first: Number, count: Number,
        sharing: Sharing,
    ) -> tuple[State, PyTree]:  # fmt: skip
        def body(k: Int[Array, ""], carry: tuple[State, PyTree]) -> tuple[State, PyTree]:
            state, infos = carry
            state, info = self._play(state, federation, key, first + k, trees.take(rows, k), sharing)
            return state, trees.map(lambda all, one: all.at[k].set(one), infos, info)

        shapes = jax.eval_shape(lambda: self._play(state, federation, key, first, trees.take(rows, 0), sharing))[1]
        infos = trees.map(lambda s: jnp.zeros((self.capacity, *s.shape), s.dtype), shapes)
        return jax.lax.fori_loop(0, count, body, (state, infos))

    def _round(
        self, state: State, federation: Federation, key: Key[Array, ""], number: Number, row: Slice, sharing: Sharing
    ) -> tuple[State, PyTree]:
        method, ids = self.method, row.ids
        round = round_of(federation, number, row, key)
        turns = turns_of(number, ids, row.steps, key, row.staleness)
        shared = method.broadcast(state.server, round.opening)
        latest = ring.remembered(state.ring, shared, number) if method.buffer else ()
        owns = jax.vmap(method.address, in_axes=(None, 0))(state.server, turns)
        ring.refuse_own_messages(method, owns)
        specs = trees.take(federation.spec, ids)
        members = (trees.take(state.clients, ids), owns, trees.take(federation.train, ids), specs, turns)
        shown = federation.shown(method.shows)

        def one(member: tuple) -> tuple[PyTree, PyTree, Float[Array, ""]]:
            client, own, window, spec, turn = member
            sent = ring.recalled(latest, turn.round) if method.buffer else shared
            client, up = method.local(client, sent, own, federation.view(window)._replace(shown=shown), spec, turn)
            return client, up, length(client, up)

        def part(members: tuple) -> tuple[PyTree, PyTree, Float[Array, "S"]]:
            numbers = trees.size((shared, trees.take(members[0], 0)))
            layout = layout_for(rows_of(members), numbers) if self.layout == "auto" else self.layout
            return each(one, members, layout, members[-1].steps)

        clients, ups, lengths = dealt(part, members, sharing, work=row.steps, idle=_without_steps)
        counted, replies = judged(replies_of(state), lengths, ids, row.arrived, self.magnitude)
        with sharing_blocks(total_over(sharing)):
            server, info = method.aggregate(state.server, owns, ups, specs, round._replace(arrived=counted))
        return State(server, _scatter(state.clients, clients, ids, counted), replies, latest), info

    # -- evaluate

    def evaluate(
        self, state: State, federation: Federation, key: Key[Array, "..."], number: Number,
        steps: Int[np.ndarray, "c"] | Int[Array, "c"], measure: Measure, chosen: Int[np.ndarray, "c"] | Sequence[int],
    ) -> tuple[PyTree, PyTree]:  # fmt: skip
        who = check_chosen(federation, chosen, steps)
        sharing = tuple(jax.devices()) if self.devices is None else self.devices
        rest = (key, jnp.asarray(number, jnp.int32), jnp.asarray(steps), jnp.asarray(who))
        inside = _is_traced(state, federation, rest)
        taken = self._taken(state, who)
        if not inside:
            taken, rest = everywhere((taken, rest), sharing)
            federation = self._on(federation, sharing)
        program = functools.partial(self._scores_of_seeds if self.seeds else self._scores, measure=measure)
        found = self._program(measure, program, sharing, inside)(taken, federation, *rest)
        return found if inside else trees.map(np.asarray, found)

    def _taken_by(self, state: State, who: Int[Array, "c"]) -> State:
        """The state with those clients alone, and without the ring, which nobody measures."""
        return state._replace(ring=(), clients=trees.map(lambda a: a[:, who] if self.seeds else a[who], state.clients))

    def _scores_of_seeds(
        self, state: State, federation: Federation, key: Key[Array, "seeds"], number: Number, steps: Int[Array, "c"],
        who: Int[Array, "c"], measure: Measure, sharing: Sharing,
    ) -> tuple[PyTree, PyTree]:  # fmt: skip
        """Devices share the seeds where these keep them as busy as the clients would."""
        by_seed = balance(key.shape[0], sharing) >= balance(who.shape[0], sharing)

        def one(member: tuple) -> tuple[PyTree, PyTree]:
            state, rest, key = member
            federation_of_seed = rest._replace(arrays=federation.arrays)
            return self._scores(state, federation_of_seed, key, number, steps, who, measure, () if by_seed else sharing)

        members = (state, federation._replace(arrays=()), key)
        return dealt(lambda members: each(one, members), members, sharing if by_seed else ())

    def _scores(
        self, state: State, federation: Federation, key: Key[Array, ""], number: Number, steps: Int[Array, "c"],
        who: Int[Array, "c"], measure: Measure, sharing: Sharing,
    ) -> tuple[PyTree, PyTree]:  # fmt: skip
        x, shown = self.method.global_model(state.server), federation.shown(self.method.shows)

        def one(member: tuple) -> PyTree:
            i, client, train, held, spec, steps = member
            turn = turn_of(number, i, steps, key)
            told = self.method.briefed(client, state.server, turn)
            seen = federation.view(train)._replace(shown=shown)
            return measure.of_client(told, x, seen, federation.view(held), spec, turn)

        train, held, spec = (trees.take(part, who) for part in (federation.train, federation.held, federation.spec))
        members, work = (who, state.clients, train, held, spec, steps), JUDGED * steps + held.size
        of_clients = dealt(lambda members: each(one, members), members, sharing, work=work)
        rows = (federation.view(federation.server), federation.view(federation.test))
        worth = trees.size(x) * federation.index.shape[-1] >= WORTH
        return measure.of_model(x, *rows, total_over(sharing if worth else ())), of_clients

    # -- programs and places

    def _program(self, name: object, function: Callable[..., PyTree], sharing: Sharing, inside: bool) -> Callable[..., PyTree]:
        """`function` on all devices of `sharing`, compiled, or as it is inside a program of the user's, who compiles it."""
        if (name, sharing, inside) not in self._programs:
            run = on_all(sharing, functools.partial(function, sharing=sharing))
            self._programs[name, sharing, inside] = precise(run) if inside else jitted(run)
        return self._programs[name, sharing, inside]

    def _on(self, federation: Federation, sharing: Sharing) -> Federation:
        """`federation` on all devices: put there once, as long as it is the one that the last call had."""
        if sharing not in self._placed or self._placed[sharing][0] is not federation:
            self._placed[sharing] = (federation, everywhere(federation, sharing))
        return self._placed[sharing][1]


def _is_traced(*trees: PyTree) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def _without_steps(members: tuple, which: Bool[Array, "S"]) -> tuple:
    *rest, turn = members
    return (*rest, turn._replace(steps=jnp.where(which, 0, turn.steps)))


def _without_rounds(members: tuple, which: Bool[Array, "S"]) -> tuple:
    *rest, count = members
    return (*rest, jnp.where(which, 0, count))


def _scatter(everyone: PyTree, cohort: PyTree, ids: Int[Array, "S"], counted: Bool[Array, "S"]) -> PyTree:
    """New state for those whose reply counted; a reply that was lost leaves no trace at its client."""

    def leaf(all: Array, some: Array) -> Array:
        return all.at[jnp.where(counted, ids, all.shape[0])].set(some, mode="drop")

    return trees.map(leaf, everyone, cohort)
