"""What all engines share: the state of a federation, and the three verbs that every engine has.

    init(x, federation) -> State                                        before round 0
    advance(state, federation, plan, key, first, count) -> (State, Info)        rounds first .. first + count - 1
    evaluate(state, federation, key, number, steps, measure, chosen) -> (of the model, of the clients)

Each is a Protocol below. An engine of several seeds takes and gives the same with a leading axis, one row per seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Int, Key, PyTree

from .. import keys, trees
from ..errors import FedtierError, FedtierWarning, require, whole
from ..federation import Federation, Plan, Total, View, in_turn
from ..methods import ring
from ..methods.method import Method, Opening, Round, Turn
from .replies import Replies

Table = np.ndarray | Array  # a plan's table: NumPy on the host, traced inside a program
Number = int | np.integer | Int[Array, ""] | Int[np.ndarray, ""]


class State(NamedTuple):
    """All memory of a run between two rounds."""

    server: PyTree
    clients: PyTree  # leaves [m, ...]
    replies: Replies | tuple[()] = ()  # which were lost, and whose; () where nobody keeps count
    ring: PyTree = ()  # the latest broadcasts, leaves [K, ...], of a method with a buffer


def replies_of(state: State) -> Replies:
    """What the state remembers of replies; refuses a state that no engine has made."""
    if not isinstance(state.replies, Replies):
        raise FedtierError("state", "()", "does not remember which replies counted", "start from engine.init(x, federation)")
    return state.replies


@runtime_checkable
class ModelMeasure(Protocol):
    """What is measured of the global model (None where the method has none), on the server's rows and on the test rows; `total`
    is for `mean_over_rows`, and may share the rows among devices."""

    def __call__(self, x: PyTree | None, server: View, test: View, total: Total = in_turn) -> PyTree: ...


@runtime_checkable
class ClientMeasure(Protocol):
    """What is measured of one client: its state, the global model, its training rows, its held-back rows."""

    def __call__(self, client: PyTree, x: PyTree | None, view: View, held: View, spec: PyTree, turn: Turn) -> PyTree: ...


class Measure(NamedTuple):
    """Two pure functions. Keep the tuple: an engine compiles an evaluation once for each."""

    of_model: ModelMeasure
    of_client: ClientMeasure


@runtime_checkable
class Init(Protocol):
    """The state before round 0, from the first model. Refuses a federation that the method cannot run on."""

    def __call__(self, x: PyTree, federation: Federation) -> State: ...


@runtime_checkable
class Advance(Protocol):
    """The state after rounds `first` .. `first + count - 1` of the plan, and the method's info with a leading axis [count].

    `key` is the run's root. `state` stays as it was and may be used again: to try other rounds from it, or to go back.
    """

    def __call__(
        self, state: State, federation: Federation, plan: Plan, key: Key[Array, "..."], first: int, count: int
    ) -> tuple[State, PyTree]: ...


@runtime_checkable
class Evaluate(Protocol):
    """(measure.of_model, measure.of_client of each of the `chosen` clients [c, ...]) after `number` rounds.

    `steps` [c] are the local steps of the personal solves, which draw at the address (key, number, client).
    """

    def __call__(
        self,
        state: State,
        federation: Federation,
        key: Key[Array, "..."],
        number: Number,
        steps: Int[np.ndarray, "c"] | Int[Array, "c"],
        measure: Measure,
        chosen: Int[np.ndarray, "c"] | Sequence[int],
    ) -> tuple[PyTree, PyTree]: ...


class Engine(NamedTuple):
    """See the module and the Protocols."""

    name: str
    init: Init
    advance: Advance
    evaluate: Evaluate


def initial_state(method: Method, x: PyTree, federation: Federation, history: int = 1) -> State:
    """The state before round 0; a method with a buffer remembers the `history` latest broadcasts."""
    clients = jax.vmap(method.client_init, in_axes=(None, 0))(x, federation.spec)
    server = jax.tree.map(jnp.array, method.server_init(x))
    state = State(server, clients, Replies.none(federation.clients))
    if not method.buffer:
        return state
    opening = Opening(jnp.zeros((), jnp.int32), federation.clients, federation.view(federation.server), keys.root(0))
    return state._replace(ring=ring.blank(method, server, opening, history))


def global_models(method: Method, state: State) -> PyTree | None:
    """Of a state of several seeds: the global model of each, leaves [seeds, ...]; None where the method has none."""
    if not jax.tree.leaves(state.server):
        return method.global_model(state.server)
    return jax.vmap(method.global_model)(state.server)


def finite_seeds(state: State) -> Bool[np.ndarray, "seeds"]:
    """Of a state of several seeds: whose server is still finite. The seeds never touch each other, so the others go on."""
    assert isinstance(state.replies, Replies)
    if not jax.tree.leaves(state.server):
        return np.ones(state.replies.recent.shape[0], bool)
    return np.asarray(_finite_by_seed(state.server))


_finite_by_seed = jax.jit(jax.vmap(trees.all_finite))


@jax.jit
def keep_seeds(which: Bool[Array, "seeds"], state: State, before: State) -> State:
    """`state` for the seeds in `which`, `before` for the others: a seed that has diverged stays where it was sound."""

    def leaf(new: Array, old: Array) -> Array:
        return jnp.where(which.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return jax.tree.map(leaf, state, before)


def check_federation(method: Method, federation: Federation) -> None:
    """Refuses a federation that the method cannot run on, before anything is traced; says which rows it leaves unused."""
    tell_unused_rows(method, federation.train.size)
    if method.needs_server_data and not isinstance(federation.server.size, Tracer):
        rows = int(np.min(federation.server.size))
        require(rows > 0, "server_share", rows, f"{method.name} needs rows at the server", "build(..., server_share=0.3)")


def tell_unused_rows(method: Method, rows: Table | int) -> None:
    """Warns where a client has more rows than the method stores; `rows`: of each client."""
    if not method.stored or isinstance(rows, Tracer):
        return
    most = int(np.max(rows, initial=0))
    if most > method.stored:
        words = f"stored = {method.stored}: of a client's rows {method.name} uses the first {method.stored} alone"
        warnings.warn(f"{words}, and one has {most}; stored = {most} takes all", FedtierWarning, stacklevel=2)


def check_rounds(plan: Plan, first: int, count: int) -> None:
    """Refuses rounds that the plan does not have."""
    whole("first", first, 0)
    whole("count", count, 0)
    rounds = plan.ids.shape[-2]
    hint = f"a plan of {first + count} rounds: make_plan(..., rounds={first + count})"
    require(first + count <= rounds, "count", count, f"must end within the plan's {rounds} rounds; first is {first}", hint)


def check_history(method: Method, plan: Plan, state: State, first: int, count: int) -> None:
    """Refuses a plan in which replies are older than the method, or the state, can tell."""
    if plan.staleness is None:
        return
    hint = "a method with a buffer: fedbuff, fedasync"
    require(method.buffer > 0, "plan", "staleness", f"{method.name} has no replies to older broadcasts", hint)
    if isinstance(plan.staleness, Tracer):
        return
    ages, kept = np.asarray(plan.staleness)[..., first : first + count, :], ring.length(state.ring)
    kept = kept if ages.ndim == 2 else jax.tree.leaves(state.ring)[0].shape[1]
    most = int(np.max(ages, initial=0))
    rule = f"the state remembers {kept} broadcasts, the plan needs {most + 1}"
    require(most < kept, "history", kept, rule, "make the engine with history=plan.history")
    began = np.arange(first, first + count)[:, None] - ages
    require(bool(np.all((ages >= 0) & (began >= 0))), "plan", "staleness", "must not reach before round 0, nor be negative")


def check_chosen(federation: Federation, chosen: Int[np.ndarray, "c"] | Sequence[int], steps: Table) -> Int[np.ndarray, "c"]:
    """The numbers of the clients to evaluate, as an array; refuses a client that is not there."""
    numbers = np.asarray(chosen, np.int32)
    fits = numbers.ndim == 1 and numbers.size > 0 and numbers.min() >= 0 and numbers.max() < federation.clients
    require(bool(fits), "chosen", chosen, f"must be clients from 0 to {federation.clients - 1}")
    require(steps.shape == numbers.shape, "steps", steps.shape, f"must be one number for each of the {numbers.size} clients")
    return numbers


def round_of(federation: Federation, number: Number, row: Slice, key: Key[Array, ""]) -> Round:
    """What the server knows of round `number`, of which `row` is the plan."""
    view, at = federation.view(federation.server), keys.at(key, number, 0)
    return Round(number, row.ids, row.arrived, federation.clients, view, at, row.staleness)  # pyright: ignore[reportArgumentType]


class Slice(NamedTuple):
    """A few rounds of a plan, padded to a fixed length so that the last, shorter stretch compiles nothing new."""

    ids: Int[Array, "C S"]
    steps: Int[Array, "C S"]
    arrived: Bool[Array, "C S"]
    staleness: Int[Array, "C S"] | None = None

    @classmethod
    def of(cls, plan: Plan, first: int, count: int, capacity: int) -> Slice:
        def part(table: Table) -> Table:
            rows = table[..., first : first + count, :]
            pad = [(0, 0)] * (rows.ndim - 2) + [(0, capacity - count), (0, 0)]
            return np.pad(rows, pad) if isinstance(rows, np.ndarray) else jnp.pad(rows, pad)

        return jax.tree.map(part, cls(*plan._replace(seconds=None)[: len(cls._fields)]))  # pyright: ignore[reportArgumentType]
