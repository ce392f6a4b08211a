"""The two ends of a round as compiled programs: what goes down, and what becomes of what came back."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from .. import keys
from ..compilation import jitted
from ..federation import View
from ..methods.method import Contribution, Method, Opening, Round, turn_of, turns_of
from ..methods.summed import known_sums


def open_round(
    method: Method, m: int, server: PyTree, number: Array, ids: Array, steps: Array, staleness: Array | None, view: View,
    key: Key[Array, ""],
) -> tuple[PyTree, PyTree, Key[Array, "S"]]:  # fmt: skip
    """What goes down: the shared message, and for each seat its own and its key."""
    return _compiled(_open)(method, m, server, number, ids, steps, staleness, view, key)


def close_round(
    method: Method, m: int, server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree,
    number: Array, ids: Array, arrived: Array, staleness: Array | None, view: View, key: Key[Array, ""],
) -> tuple[PyTree, PyTree]:  # fmt: skip
    """(server state, info) after the replies."""
    return _compiled(_close)(method, m, server, owns, ups, specs, number, ids, arrived, staleness, view, key)


def conclude_round(
    method: Method, m: int, server: PyTree, total: Contribution, number: Array, view: View, key: Key[Array, ""]
) -> tuple[PyTree, PyTree]:
    """(server state, info) after the sum of the replies, of a method whose rounds depend on it alone."""
    return _compiled(_conclude)(method, m, server, total, number, view, key)


def broadcast_of(method: Method, m: int, server: PyTree, number: Array, view: View, key: Key[Array, ""]) -> PyTree:
    """The shared message of round `number` alone."""
    return _compiled(_broadcast)(method, m, server, number, view, key)


@cache
def _compiled(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    return jitted(function, static_argnums=(0, 1))


def _open(
    method: Method, m: int, server: PyTree, number: Array, ids: Array, steps: Array, staleness: Array | None, view: View,
    key: Key[Array, ""],
) -> tuple[PyTree, PyTree, Key[Array, "S"]]:  # fmt: skip
    turns = turns_of(number, ids, steps, key, staleness)
    opening = Opening(number, m, view, keys.at(key, number, 0))
    return method.broadcast(server, opening), jax.vmap(method.address, in_axes=(None, 0))(server, turns), turns.key


def _broadcast(method: Method, m: int, server: PyTree, number: Array, view: View, key: Key[Array, ""]) -> PyTree:
    return method.broadcast(server, Opening(number, m, view, keys.at(key, number, 0)))


def _conclude(
    method: Method, m: int, server: PyTree, total: Contribution, number: Array, view: View, key: Key[Array, ""]
) -> tuple[PyTree, PyTree]:
    return known_sums(method).conclude(server, total, Opening(number, m, view, keys.at(key, number, 0)))


def _close(
    method: Method, m: int, server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree,
    number: Array, ids: Array, arrived: Array, staleness: Array | None, view: View, key: Key[Array, ""],
) -> tuple[PyTree, PyTree]:  # fmt: skip
    round = Round(number, ids, arrived, m, view, keys.at(key, number, 0), staleness)
    return method.aggregate(server, owns, ups, specs, round)


turn_key = jax.jit(lambda number, client, key: turn_of(number, client, jnp.zeros((), jnp.int32), key).key)
