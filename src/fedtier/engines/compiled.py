"""The compiled engine: many rounds of a whole federation as one XLA program.

A loop over rounds; inside it the cohort, one client after another (`map`), all at once (`vmap`) or in chunks sorted by
their local steps (a number). Bounds are traced and the plan arrives padded, so neither growing H, another seed nor a
shorter last stretch compiles anything. Client state is gathered and scattered in place, held once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Int, Key, PyTree

from .. import trees
from ..errors import choice, whole
from ..federation import Federation, Plan
from ..methods.method import Method
from .engine import Engine, Slice, State, check_federation, initial_state, round_of, turn_of


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
    cohort     "map", "vmap", a chunk size, or "auto": map on a CPU, where a batched product is slower than several
               plain ones and nobody waits for the slowest client; vmap elsewhere
    devices    shard the cohort over these; replies are gathered before they are summed, so the result does not
               depend on how many there are
    seeds      state, plan, key, federation (but its arrays) and x carry a leading axis, one row per seed
    """
    whole("capacity", capacity)
    local = _cohort_runner(method, cohort, devices)

    def play(state: State, federation: Federation, key: Key[Array, ""], number: Any, row: Slice) -> tuple[State, PyTree]:
        ids, arrived = row.ids, row.arrived
        round = round_of(federation, number, ids, arrived, key)
        turns = jax.vmap(lambda i, steps: turn_of(number, i, steps, key))(ids, row.steps)
        shared = method.broadcast(state.server, round)
        owns = jax.vmap(method.address, in_axes=(None, 0))(state.server, turns)
        specs = trees.take(federation.spec, ids)
        members = (trees.take(state.clients, ids), owns, trees.take(federation.train, ids), specs, turns)
        clients, ups = local(shared, federation._replace(spec=()), members)
        server, info = method.aggregate(state.server, owns, ups, specs, round)
        return State(server, _scatter(state.clients, clients, ids, arrived)), info

    def advance(
        state: State, federation: Federation, rows: Slice, key: Key[Array, ""], first: Any, count: Any
    ) -> tuple[State, PyTree]:
        def body(k: Int[Array, ""], carry: tuple[State, PyTree]) -> tuple[State, PyTree]:
            state, infos = carry
            state, info = play(state, federation, key, first + k, trees.take(rows, k))
            return state, trees.map(lambda all, one: all.at[k].set(one), infos, info)

        shapes = jax.eval_shape(play, state, federation, key, first, trees.take(rows, 0))[1]
        infos = trees.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
        return jax.lax.fori_loop(0, count, body, (state, infos))

    first_state = initial_state
    if seeds:
        advance = _over_seeds(advance)
        first_state = _over_seeds_init(initial_state)
    program = jax.jit(advance, donate_argnums=0, compiler_options=_compiler_options())

    def run(state: State, federation: Federation, plan: Plan, key: Any, first: int, count: int) -> tuple[State, PyTree]:
        whole("count", count, 0)
        rows = Slice.of(plan, first, count, capacity)
        state, infos = program(state, federation, rows, key, jnp.asarray(first), jnp.asarray(count))
        return state, trees.map(lambda a: a[:, :count] if seeds else a[:count], infos)

    def init(x: PyTree, federation: Federation) -> State:
        check_federation(method, federation)
        return first_state(method, x, federation)

    return Engine("compiled", init, run)


def _compiler_options() -> dict[str, Any]:
    """On a CPU every product on one core: a local step's are too small to share, waking a second core costs more."""
    return {"xla_cpu_multi_thread_eigen": False} if jax.default_backend() == "cpu" else {}


def each(function: Callable[..., PyTree], members: PyTree, how: str | int = "auto", steps: Any = None) -> PyTree:
    """`function` of every row of `members`: by map, by vmap, or in chunks of rows with similar `steps`."""
    if how == "auto":
        how = "map" if jax.default_backend() == "cpu" else "vmap"
    if isinstance(how, int):
        order = jnp.argsort(steps) if steps is not None else jnp.arange(jax.tree.leaves(members)[0].shape[0])
        out = jax.lax.map(function, trees.take(members, order), batch_size=how)
        return trees.take(out, jnp.argsort(order))
    return jax.lax.map(function, members) if how == "map" else jax.vmap(function)(members)


def _cohort_runner(method: Method, how: str | int, devices: Sequence[Any] | None) -> Callable[..., tuple[PyTree, PyTree]]:
    if isinstance(how, int):
        whole("cohort", how)
    else:
        choice("cohort", how, ("auto", "map", "vmap"))

    def run(shared: PyTree, federation: Federation, members: tuple) -> tuple[PyTree, PyTree]:
        def one(member: tuple) -> tuple[PyTree, PyTree]:
            client, own, window, spec, turn = member
            return method.local(client, shared, own, federation.view(window), spec, turn)

        return each(one, members, how, members[-1].steps)

    if devices is None or len(devices) < 2:
        return run

    mesh, many = Mesh(list(devices), ("cohort",)), len(devices)
    split, whole_copy = PartitionSpec("cohort"), PartitionSpec()
    sharded = jax.shard_map(run, mesh=mesh, in_specs=(whole_copy, whole_copy, split), out_specs=split, check_vma=False)

    def padded(shared: PyTree, federation: Federation, members: tuple) -> tuple[PyTree, PyTree]:
        count = members[-1].steps.shape[0]
        rows = jnp.minimum(jnp.arange(-(-count // many) * many), count - 1)  # repeat the last to fill the mesh
        out = sharded(shared, federation, trees.take(members, rows))
        gathered = jax.lax.with_sharding_constraint(out, jax.sharding.NamedSharding(mesh, whole_copy))
        return trees.take(gathered, slice(0, count))

    return padded


def _scatter(everyone: PyTree, cohort: PyTree, ids: Int[Array, "S"], arrived: Bool[Array, "S"]) -> PyTree:
    """New state for those whose reply arrived; a reply that was lost leaves no trace at its client."""

    def leaf(all: Array, some: Array) -> Array:
        return all.at[jnp.where(arrived, ids, all.shape[0])].set(some, mode="drop")

    return trees.map(leaf, everyone, cohort)


def _federation_axes(federation: Federation) -> Federation:
    axes = jax.tree.map(lambda a: 0, federation)
    return axes._replace(arrays=jax.tree.map(lambda a: None, federation.arrays))


def _over_seeds(advance: Callable[..., Any]) -> Callable[..., Any]:
    def all_seeds(state: State, federation: Federation, rows: Slice, key: Any, first: Any, count: Any) -> Any:
        def one(args: tuple) -> Any:
            state, federation_rest, rows, key = args
            return advance(state, federation_rest._replace(arrays=federation.arrays), rows, key, first, count)

        return each(one, (state, federation._replace(arrays=()), rows, key))

    return all_seeds


def _over_seeds_init(init: Callable[..., State]) -> Callable[..., State]:
    def all_seeds(method: Method, x: PyTree, federation: Federation) -> State:
        return jax.vmap(lambda x, f: init(method, x, f), in_axes=(0, _federation_axes(federation)))(x, federation)

    return all_seeds
