"""The contract of a method: a tuple of pure functions over pytrees. Engines run them; nothing else does.

One round, as every engine plays it:

    shared  = broadcast(server, opening)                   once
    own     = address(server, turn)                        for each client of the cohort
    client, up = local(client, shared, own, view, spec, turn)      at the client
    server, info = aggregate(server, owns, ups, specs, round)      with a leading axis S, in the order of the client numbers

State is memory, messages are what crosses the wire, arguments are data, `info` is for the logs. No function loops over
clients, none keeps anything to itself. What is sent is decided before anyone has replied: `broadcast` and `address` get
no `arrived`. Where a method has a `buffer`, a round is a step of the server, and `shared` for each client is that of the
round in which it began (`ring`); such a method has no messages of one client's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
from jax import numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Real

from .. import keys, trees
from ..federation import View


class Turn(NamedTuple):
    """What client i is told about round r."""

    round: Int[Array, ""]  # whose broadcast the client works on
    client: Int[Array, ""]
    steps: Int[Array, ""]  # H_{i,r}
    key: Key[Array, ""]  # at(root, round, client + 1)


class Opening(NamedTuple):
    """What the server knows when it opens round r, before any reply."""

    round: Int[Array, ""]
    clients: int  # m, those that are not asked included
    view: View  # the server's own data
    key: Key[Array, ""]  # at(root, round, 0)


class Round(NamedTuple):
    """What the server knows when it closes round r."""

    round: Int[Array, ""]
    ids: Int[Array, "S"]
    arrived: Bool[Array, "S"]  # False: the reply is lost, and its row of `ups` may hold anything
    clients: int
    view: View
    key: Key[Array, ""]
    staleness: Int[Array, "S"] | None = None  # rounds since the broadcast that a reply answers; None: it is this round's

    @property
    def ages(self) -> Int[Array, "S"]:
        """The staleness of each reply, 0 where all are of this round. A client cannot know it: it begins before."""
        return jnp.zeros_like(self.ids) if self.staleness is None else self.staleness

    @property
    def opening(self) -> Opening:
        """What was already known when the round was opened."""
        return Opening(self.round, self.clients, self.view, self.key)


def turn_of(number: ArrayLike, client: ArrayLike, steps: ArrayLike, key: Key[Array, ""]) -> Turn:
    """The turn of `client` in round `number`; `key` is the run's root."""
    round, client, steps = (jnp.asarray(value) for value in (number, client, steps))
    return Turn(round, client, steps, keys.at(key, round, client + 1))


def turns_of(
    number: ArrayLike, ids: Int[Array, "S"], steps: Int[Array, "S"], key: Key[Array, ""], staleness: Int[Array, "S"] | None
) -> Turn:
    """The turns of a cohort, leaves [S]: of round `number`, or of the earlier round in which each of its clients began."""
    if staleness is None:
        return jax.vmap(lambda i, h: turn_of(number, i, h, key))(ids, steps)
    return jax.vmap(lambda age, i, h: turn_of(jnp.asarray(number) - age, i, h, key))(staleness, ids, steps)


@runtime_checkable
class ClientSpec(Protocol):
    """What methods read in one client's row of `federation.spec`; the rest of it belongs to the problem's functions."""

    @property
    def weight(self) -> Real[ArrayLike, ""]:
        """m N_i/N: the client's weight, 1 on average."""
        ...

    @property
    def step_scale(self) -> Real[ArrayLike, ""]:
        """The factor on the client's step sizes."""
        ...


@runtime_checkable
class ServerInit(Protocol):
    def __call__(self, x: PyTree, /) -> PyTree:
        """The server's state before round 0, from the first model."""
        ...


@runtime_checkable
class ClientInit(Protocol):
    def __call__(self, x: PyTree, spec: ClientSpec, /) -> PyTree:
        """A client's state before its first turn. Every client starts so, whenever it is first asked."""
        ...


@runtime_checkable
class Broadcast(Protocol):
    def __call__(self, server: PyTree, opening: Opening, /) -> PyTree:
        """The message that all clients of the round get. Built once."""
        ...


@runtime_checkable
class Address(Protocol):
    def __call__(self, server: PyTree, turn: Turn, /) -> PyTree:
        """The message for one client alone, for example the key of its random direction."""
        ...


@runtime_checkable
class Local(Protocol):
    def __call__(
        self, client: PyTree, shared: PyTree, own: PyTree, view: View, spec: ClientSpec, turn: Turn, /
    ) -> tuple[PyTree, PyTree]:
        """(the client's new state, its reply), after turn.steps local steps on its own rows.

        With 0 steps the reply must change nothing and the state must stay. The new state counts only if the reply arrives.
        """
        ...


@runtime_checkable
class Aggregate(Protocol):
    def __call__(self, server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree, round: Round, /) -> tuple[PyTree, PyTree]:
        """(the server's new state, what the logs may show). `owns`, `ups` and `specs` have a leading axis S.

        Rows with round.arrived = False must not count, whatever they hold, NaN included.
        """
        ...


@runtime_checkable
class GlobalModel(Protocol):
    def __call__(self, server: PyTree, /) -> PyTree | None:
        """The model for everyone; None where the method has none."""
        ...


@runtime_checkable
class PersonalModel(Protocol):
    def __call__(self, client: PyTree, x: PyTree | None, view: View, spec: ClientSpec, turn: Turn, /) -> PyTree:
        """The client's own model, from its state, the global model and its rows, with the local steps of one more round."""
        ...


@runtime_checkable
class Predict(Protocol):
    def __call__(self, y: PyTree, view: View, /) -> Callable[..., PyTree]:
        """inputs [B, ...] -> outputs [B, K], from a client's personal model and its training rows: for methods whose personal
        predictor is more than a model. What does not depend on the inputs is computed before they come."""
        ...


@runtime_checkable
class Coupled(Protocol):
    def __call__(self, y: PyTree, x: PyTree, view: View, spec: ClientSpec, /) -> Array:
        """f2(x, y): what the server pays for a client whose personal model is y; `view` are the client's rows."""
        ...


class Briefed(NamedTuple):
    """What `personal_model` gets as the client's state by a method that has an `offer`."""

    client: PyTree  # the client's state
    offer: PyTree  # what the server has told this client


class Contribution(NamedTuple):
    """What one client adds to the sums of a round; or, added over the clients that arrived, those sums."""

    value: PyTree  # w_i times what is averaged, which is 0 for a client that changes nothing
    weight: Float[Array, "*S"]  # w_i; its sum is what the mean divides by
    moved: Float[Array, "*S"]  # 1 where the client says anything: it has made a step

    @property
    def mean(self) -> PyTree:
        """Of a sum: the mean of what is averaged; zeros where nobody arrived."""
        return trees.scale(1.0 / jnp.where(self.weight > 0, self.weight, 1.0), self.value)

    def times(self, w: Float[Array, ""]) -> Contribution:
        """Of a client that counts as any other: with the weight w instead."""
        return self._replace(value=trees.scale(w, self.value), weight=w * self.weight)

    def over(self, arrived: Bool[Array, "S"]) -> Contribution:
        """Of the contributions of a cohort, leading axis S: their sum over those that arrived."""
        return trees.weighted_sum(arrived.astype(jnp.float32), self)


def counted_alike(value: PyTree) -> Contribution:
    """The contribution of a client that counts as much as any other."""
    return Contribution(value, jnp.ones(()), jnp.ones(()))


@runtime_checkable
class Share(Protocol):
    def __call__(self, up: PyTree, spec: ClientSpec, /) -> Contribution:
        """What a client's reply adds to the sums of the round."""
        ...


@runtime_checkable
class Conclude(Protocol):
    def __call__(self, server: PyTree, total: Contribution, opening: Opening, /) -> tuple[PyTree, PyTree]:
        """What `aggregate` returns, from the sums of the round alone: nothing else is known of who replied, or what."""
        ...


class Sums(NamedTuple):
    """The claim that a round depends on its replies through sums alone, so that nobody need see a single reply:

        aggregate(server, owns, ups, specs, round) = conclude(server, sum over the arrived of share(up, spec), round.opening)

    up to rounding. What may be done to replies then is what may be done to a sum: to mask its terms, to add noise to it.
    """

    share: Share
    conclude: Conclude


class Method(NamedTuple):
    """See the module. `()` is a fine state or message where there is none. The last fields are what others may ask
    about a method instead of testing its name."""

    name: str
    server_init: ServerInit
    broadcast: Broadcast
    local: Local
    aggregate: Aggregate
    global_model: GlobalModel
    personal_model: PersonalModel
    client_init: ClientInit = lambda x, spec: ()
    address: Address = lambda server, turn: ()
    predict: Predict | None = None  # how a client predicts; None: by its personal model alone
    offer: Address | None = None  # what else a client needs for its personal model, for example its cluster's model
    needs_server_data: bool = False  # does it draw from the server's view?
    solves: int = 1  # a client's gradients in a round, in multiples of turn.steps
    seat: bool = False  # may the server's rows take part as one more client?
    foreign: bool = False  # is a client's part a solve and nothing else, so that a program of its own can do it?
    row_noise: bool = False  # is all that it tells of rows clipped row by row, with noise, where its local steps are private?
    buffer: int = 0  # replies after which the server makes a step, each to a broadcast of its own age; 0: rounds wait for all
    lower_level: bool = False  # is the personal model y_i(x), the solution of the lower level?
    partial: bool = False  # do parts of the model stay at the clients, so that the global one has them as at the start?
    stored: int = 0  # of a client's rows it uses so many, the first; 0: all
    sums: Sums | None = None  # does a round depend on its replies through sums alone? None: it may not
    shows: int = 0  # rows of the server that every client sees without labels (`View.shown`), told once before round 0
    differences: bool = False  # does it take differences of values, in which rounding counts?
    coupling: Coupled | None = None  # f2 of a client's personal model, where it is not problem.f2

    def briefed(self, client: PyTree, server: PyTree, turn: Turn) -> PyTree:
        """The client's state as `personal_model` takes it: with what the server offers, where the method offers anything."""
        return client if self.offer is None else Briefed(client, self.offer(server, turn))
