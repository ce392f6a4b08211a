"""Random keys are addresses: who draws what, when. Never a chain of splits.

    at(root, round, client + 1, tag, t)        client + 1 because 0 is the server

The same address gives the same draw in every engine, in any order, on any machine (threefry only).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import jax
from jaxtyping import Array, Key


class Tag(IntEnum):
    """What a draw is for. Numbers are part of the results: never renumber, only append."""

    DIRECTION = 1  # v_{i,r}
    SOLVE = 2  # minibatches of a local solve
    SERVER = 3  # minibatches of the server
    PERSONAL = 4  # minibatches of the final personal solve
    INIT = 5  # x_0
    PRETRAIN = 6  # minibatches before round 0
    DATA = 7  # draws inside a data set


BEFORE_ROUND_0 = 2**31 - 1  # the "round" of everything that happens before the first one


def root(seed: int) -> Key[Array, ""]:
    return jax.random.key(seed, impl="threefry2x32")


def at(key: Key[Array, ""], *address: Any) -> Key[Array, ""]:
    for part in address:
        key = jax.random.fold_in(key, part)
    return key
