"""The contract of a method: a tuple of pure functions over pytrees. Engines run them; nothing else does.

One round, as every engine plays it:

    shared  = broadcast(server, round)                     once
    own     = address(server, turn)                        for each client of the cohort
    client, up = local(client, shared, own, view, spec, turn)      at the client
    server, info = aggregate(server, owns, ups, specs, round)      with a leading axis S, in the order of the client numbers

State is memory, messages are what crosses the wire, arguments are data, `info` is gossip for the logs. No function
loops over clients, none keeps anything to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Bool, Int, Key, PyTree

from .. import keys
from ..federation import View


class Turn(NamedTuple):
    """What client i is told about round r."""

    round: Int[Array, ""]
    client: Int[Array, ""]
    steps: Int[Array, ""]  # H_{i,r}
    key: Key[Array, ""]  # at(root, round, client + 1)


class Round(NamedTuple):
    """What the server knows about round r."""

    round: Int[Array, ""]
    ids: Int[Array, "S"]
    arrived: Bool[Array, "S"]
    clients: int  # m, those that were not asked included
    view: View  # the server's own data
    key: Key[Array, ""]  # at(root, round, 0)


def turn_of(number: Int[Array, ""], client: Int[Array, ""], steps: Int[Array, ""], key: Key[Array, ""]) -> Turn:
    """The turn of `client` in round `number`; `key` is the run's root."""
    return Turn(number, client, steps, keys.at(key, number, client + 1))


class Method(NamedTuple):
    """See the module. `()` is a fine state or message where there is none."""

    name: str
    server_init: Callable[[PyTree], PyTree]  # (x) -> ServerState
    broadcast: Callable[..., PyTree]  # (server, round) -> Shared
    local: Callable[..., tuple[PyTree, PyTree]]  # (client, shared, own, view, spec, turn) -> (ClientState, Up)
    aggregate: Callable[..., tuple[PyTree, PyTree]]  # (server, owns, ups, specs, round) -> (ServerState, Info)
    global_model: Callable[[PyTree], PyTree | None]  # (server) -> x; None where the method has no global model
    personal_model: Callable[..., PyTree]  # (client, x, view, spec, turn) -> y
    client_init: Callable[..., PyTree] = lambda x, spec: ()  # (x, spec) -> ClientState
    address: Callable[..., PyTree] = lambda server, turn: ()  # (server, turn) -> Own
    needs_server_data: bool = False  # does `aggregate` draw from round.view?
