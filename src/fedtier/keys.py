"""Random keys are addresses: who draws what, when. Never a chain of splits.

    at(root, round, client + 1, tag, t)        client + 1 because 0 is the server

The same address gives the same draw in every engine, in any order, on any machine (threefry only).
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from enum import IntEnum

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, Key, PyTree, UInt32

SMALL = 12  # leaves of at most 2**SMALL numbers are drawn together


class Tag(IntEnum):
    """What a draw is for. Numbers are part of the results: never renumber, only append."""

    DIRECTION = 1  # v_{i,r}
    SOLVE = 2  # minibatches of a local solve
    SERVER = 3  # minibatches of the server
    PERSONAL = 4  # minibatches of the final personal solve
    INIT = 5  # x_0
    PRETRAIN = 6  # minibatches before round 0
    HESSIAN = 7  # rows for second derivatives
    ATTACK = 8  # what an attacker sends
    AUGMENT = 9  # other images in place of the stored ones
    NOISE = 10  # what is added for the sake of privacy
    SHOWN = 11  # minibatches of the rows that the server shows
    COARSE = 12  # what a client adds to its predictions
    TRIAL = 14  # what is tried before a client chooses


BEFORE_ROUND_0 = 2**31 - 1  # the "round" of everything that happens before the first one


def root(seed: int) -> Key[Array, ""]:
    """The key of a run, from its seed; all other keys are addresses under it (`at`)."""
    return jax.random.key(seed, impl="threefry2x32")


def at(key: Key[Array, ""], *address: ArrayLike) -> Key[Array, ""]:
    """The key at an address: fold_in of its parts, one after another. Rolled into a loop, because every copy of
    threefry in a program costs a tenth of a second of compilation."""
    if len(address) == 1:
        return jax.random.fold_in(key, address[0])
    return _folded(key, jnp.stack([jnp.asarray(part, jnp.uint32) for part in address]))


@functools.partial(jax.jit, inline=True)  # traced once for all addresses of a length
def _folded(key: Key[Array, ""], parts: UInt32[Array, "parts"]) -> Key[Array, ""]:
    return jax.lax.fori_loop(0, parts.shape[0], lambda k, key: jax.random.fold_in(key, parts[k]), key)


def below(key: Key[Array, ""], size: ArrayLike, count: int) -> Int[Array, "count"]:
    """`count` whole numbers uniform on 0 .. size - 1: the upper half of 32 random bits times size.

    One draw of threefry instead of randint's three. A probability is off by at most size/2^32 of itself.
    """
    bits = jax.random.bits(key, (count,), jnp.uint32)
    size = jnp.asarray(size, jnp.uint32)
    low, high = size & 0xFFFF, size >> 16  # no 64-bit product in JAX by default: multiply by halves
    a, b = bits & 0xFFFF, bits >> 16
    middle = b * low + ((a * low) >> 16)
    carry = (middle & 0xFFFF) + a * high
    return (b * high + (middle >> 16) + (carry >> 16)).astype(jnp.int32)


def normal(key: Key[Array, ""], like: PyTree) -> PyTree:
    """Independent standard normal numbers, shaped like the tree `like`: leaf k is drawn at the address (key, k).

    Leaves of about one size are drawn as rows of one array, each as long as the longest, because every draw of its own
    costs a third of a second of compilation: the first numbers of a longer draw are those of a shorter one.
    """
    leaves, structure = jax.tree.flatten(like)
    alike: dict[Hashable, list[int]] = {}
    for k, leaf in enumerate(leaves):
        alike.setdefault((leaf.dtype, max(SMALL, (leaf.size - 1).bit_length())), []).append(k)
    drawn = {}
    for members in alike.values():
        dtype, most = leaves[members[0]].dtype, max(leaves[k].size for k in members)
        rows = jax.vmap(lambda k, most=most, dtype=dtype: jax.random.normal(at(key, k), (most,), dtype))(jnp.asarray(members))
        drawn |= {k: row[: leaves[k].size].reshape(leaves[k].shape) for k, row in zip(members, rows, strict=True)}
    return structure.unflatten(drawn[k] for k in range(len(leaves)))
