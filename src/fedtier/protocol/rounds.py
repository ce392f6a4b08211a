"""The two ends of a round as compiled programs: what goes down, and what becomes of what came back."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .. import keys
from ..compilation import jitted
from ..methods.method import Opening, Round, turn_of, turns_of


def open_round(*args: Any) -> tuple:
    """What goes down: the shared message, and for each seat its own and its key; see `_open` for the arguments."""
    return _compiled(_open)(*args)


def close_round(*args: Any) -> tuple[PyTree, PyTree]:
    """(server state, info) after the replies; see `_close` for the arguments."""
    return _compiled(_close)(*args)


@cache
def _compiled(function: Any) -> Any:
    return jitted(function, static_argnums=(0, 1))


def _open(method: Any, m: int, server: PyTree, number: Any, ids: Any, steps: Any, staleness: Any, view: Any, key: Any) -> tuple:
    turns = turns_of(number, ids, steps, key, staleness)
    opening = Opening(number, m, view, keys.at(key, number, 0))
    return method.broadcast(server, opening), jax.vmap(method.address, in_axes=(None, 0))(server, turns), turns.key


def _close(
    method: Any, m: int, server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree,
    number: Any, ids: Any, arrived: Any, staleness: Any, view: Any, key: Any,
) -> tuple[PyTree, PyTree]:  # fmt: skip
    round = Round(number, ids, arrived, m, view, keys.at(key, number, 0), staleness)
    return method.aggregate(server, owns, ups, specs, round)


turn_key = jax.jit(lambda number, client, key: turn_of(number, client, jnp.zeros((), jnp.int32), key).key)
