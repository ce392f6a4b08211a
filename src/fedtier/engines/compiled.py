"""The compiled engine: many rounds of a whole federation as one XLA program.

A loop over rounds; inside it the cohort, one client after another (`map`), all at once (`vmap`) or in chunks sorted by
their local steps (a number). Bounds are traced and the plan arrives padded, so neither growing H, another seed nor a
shorter last stretch compiles anything. Client state is gathered and scattered in place, held once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Int, PyTree

from .. import trees
from ..compilation import jitted, precise
from ..errors import choice, require, whole
from ..federation import Federation, Plan
from ..methods.method import Method, turn_of
from .devices import as_many_as_hold, balance, dealt, everywhere, on_all, rank
from .engine import Engine, Slice, State, check_federation, check_rounds, initial_state, round_of

SMALL, CHUNK = 2048, 16  # numbers a client handles, and clients in a chunk: by measurement, docs/scaling.md


def compiled(
    method: Method,
    *,
    capacity: int = 100,
    cohort: str | int = "auto",
    devices: Sequence[Any] | None = None,
    seeds: bool = False,
) -> Engine:
    """The engine for `method`.

    capacity   the most rounds one call may advance
    cohort     "map", "vmap", a chunk size, or "auto": vmap on a GPU; on a CPU map, where a batched product is slower
               than several plain ones and nobody waits for the slowest client, but chunks for models so small that
               what counts is the number of operations and not their size (docs/scaling.md)
    devices    share the cohort, or the seeds, among these; by default all there are, or on a CPU as many cores as
               may each hold the clients' state (4 GiB in all). Replies are gathered before they are summed, so the
               result does not depend on how many there are
    seeds      state, plan, key, federation (but its arrays) and x carry a leading axis, one row per seed
    """
    whole("capacity", capacity)
    if isinstance(cohort, int):
        whole("cohort", cohort)
    else:
        choice("cohort", cohort, ("auto", "map", "vmap"))

    @functools.partial(jax.jit, static_argnames="sharing")  # so that it is traced once: for its shapes, then for its place
    def play(state: State, federation: Federation, key: Any, number: Any, row: Slice, sharing: tuple) -> Any:
        ids, arrived = row.ids, row.arrived
        round = round_of(federation, number, ids, arrived, key)
        turns = jax.vmap(lambda i, steps: turn_of(number, i, steps, key))(ids, row.steps)
        shared = method.broadcast(state.server, round.opening)
        owns = jax.vmap(method.address, in_axes=(None, 0))(state.server, turns)
        specs = trees.take(federation.spec, ids)
        members = (trees.take(state.clients, ids), owns, trees.take(federation.train, ids), specs, turns)

        def one(member: tuple) -> tuple[PyTree, PyTree]:
            client, own, window, spec, turn = member
            return method.local(client, shared, own, federation.view(window), spec, turn)

        def part(members: tuple) -> tuple[PyTree, PyTree]:
            how = _layout(members, trees.size((shared, trees.take(members[0], 0)))) if cohort == "auto" else cohort
            return each(one, members, how, members[-1].steps)

        clients, ups = dealt(part, members, sharing, work=row.steps, idle=_without_steps)
        server, info = method.aggregate(state.server, owns, ups, specs, round)
        return State(server, _scatter(state.clients, clients, ids, arrived)), info

    def advance(
        state: State, federation: Federation, rows: Slice, key: Any, first: Any, count: Any, sharing: tuple
    ) -> tuple[State, PyTree]:
        def body(k: Int[Array, ""], carry: tuple[State, PyTree]) -> tuple[State, PyTree]:
            state, infos = carry
            state, info = play(state, federation, key, first + k, trees.take(rows, k), sharing)
            return state, trees.map(lambda all, one: all.at[k].set(one), infos, info)

        shapes = jax.eval_shape(lambda: play(state, federation, key, first, trees.take(rows, 0), sharing))[1]
        infos = trees.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
        return jax.lax.fori_loop(0, count, body, (state, infos))

    def advance_seeds(
        state: State, federation: Federation, rows: Slice, key: Any, first: Any, count: Any, sharing: tuple
    ) -> tuple[State, PyTree]:
        """Devices share the seeds where these keep them as busy as the cohort would: seeds never wait for each other."""
        number, _, size = rows.ids.shape
        by_seed = balance(number, sharing) >= balance(size, sharing)

        def one(member: tuple) -> tuple[State, PyTree]:
            state, rest, rows, key, count = member
            federation_of_seed = rest._replace(arrays=federation.arrays)
            return advance(state, federation_of_seed, rows, key, first, count, () if by_seed else sharing)

        members = (state, federation._replace(arrays=()), rows, key, jnp.broadcast_to(count, number))
        return dealt(lambda members: each(one, members), members, sharing if by_seed else (), idle=_without_rounds)

    @functools.cache
    def program(sharing: tuple, inside: bool) -> Callable[..., tuple[State, PyTree]]:
        run = on_all(sharing, functools.partial(advance_seeds if seeds else advance, sharing=sharing))
        if inside:  # a program of the user's, who compiles it
            return precise(run)
        return jitted(run)

    def run(state: State, federation: Federation, plan: Plan, key: Any, first: int, count: int) -> tuple[State, PyTree]:
        check_rounds(plan, first, count)
        require(
            count <= capacity,
            "count",
            count,
            f"must be at most the engine's capacity, {capacity}",
            f"compiled(method, capacity={count})",
        )
        sharing = as_many_as_hold(state.clients) if devices is None else tuple(devices)
        rest = (Slice.of(plan, first, count, capacity), key, np.int32(first), np.int32(count))
        inside = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((state, federation, rest)))
        if not inside:
            state, rest = everywhere((state, rest), sharing)
            federation = placed(federation, sharing)
        state, infos = program(sharing, inside)(state, federation, *rest)
        if not inside:
            infos = trees.map(np.asarray, infos)  # small; to cut a device's array would compile something for each count
        return state, trees.map(lambda a: a[:, :count] if seeds else a[:count], infos)

    last: list[tuple[Federation, tuple, Federation]] = []

    def placed(federation: Federation, sharing: tuple) -> Federation:
        """`federation` on all devices: put there once, as long as it is the one that the last call had."""
        if not last or last[0][0] is not federation or last[0][1] != sharing:
            last[:] = [(federation, sharing, everywhere(federation, sharing))]
        return last[0][2]

    @jax.jit
    def first_state(x: PyTree, federation: Federation) -> State:
        one = functools.partial(initial_state, method)
        return jax.vmap(one)(x, federation) if seeds else one(x, federation)

    def init(x: PyTree, federation: Federation) -> State:
        check_federation(method, federation)
        return first_state(x, federation._replace(arrays=()))

    return Engine("compiled", init, run)


def each(function: Callable[..., PyTree], members: PyTree, how: str | int = "auto", steps: Any = None) -> PyTree:
    """`function` of every row of `members`: by map, by vmap, or in chunks of rows with similar `steps`."""
    if how == "auto":
        how = "map" if jax.default_backend() == "cpu" else "vmap"
    if isinstance(how, int):
        place = jnp.arange(_rows(members)) if steps is None else rank(steps)
        order = jnp.zeros_like(place).at[place].set(jnp.arange(len(place)))
        return trees.take(jax.lax.map(function, trees.take(members, order), batch_size=how), place)
    return jax.lax.map(function, members) if how == "map" else jax.vmap(function)(members)


def _layout(members: PyTree, numbers: int) -> str | int:
    """ "auto" for a cohort in which a client handles so many `numbers`: models and state, not rows."""
    if numbers > SMALL or jax.default_backend() != "cpu":
        return "auto"
    rows = _rows(members)
    chunk = max(size for size in range(1, CHUNK + 1) if rows % size == 0)  # a remainder would be a second program
    return chunk if chunk >= CHUNK // 2 else "map"  # fewer at once gain nothing, and wait for the slowest


def _rows(members: PyTree) -> int:
    return jax.tree.leaves(members)[0].shape[0]


def _without_steps(members: tuple, which: Any) -> tuple:
    *rest, turn = members
    return (*rest, turn._replace(steps=jnp.where(which, 0, turn.steps)))


def _without_rounds(members: tuple, which: Any) -> tuple:
    *rest, count = members
    return (*rest, jnp.where(which, 0, count))


def _scatter(everyone: PyTree, cohort: PyTree, ids: Int[Array, "S"], arrived: Bool[Array, "S"]) -> PyTree:
    """New state for those whose reply arrived; a reply that was lost leaves no trace at its client."""

    def leaf(all: Array, some: Array) -> Array:
        return all.at[jnp.where(arrived, ids, all.shape[0])].set(some, mode="drop")

    return trees.map(leaf, everyone, cohort)
