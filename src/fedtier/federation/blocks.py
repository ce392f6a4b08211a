"""Means over many rows as sums over blocks of a few, for values and for gradients.

A net makes thousands of numbers of a row. On a CPU those of 512 rows leave the caches, and a gradient of the small net takes
1.8 times as long as in blocks of 32 (docs/scaling.md). Inside `sharing_blocks` the cores share the blocks: each has every n-th
one, and all add them up in their own order, so that the sum does not depend on how many cores there are.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.extend.core import Var
from jaxtyping import Array, Float, Int, PyTree

from .. import trees
from .shards import View

ROOM = 6 * 2**20  # bytes of the widest array that a block makes: the fastest for six of seven nets, of 16 to 128 rows a block
MOST = 256  # rows in a block, whatever the model
GROUPS = 16  # of blocks: what the cores tell each other are the sums of so many

Count = int | Int[Array, ""]


@runtime_checkable
class Total(Protocol):
    """each(0) + each(1) + .. + each(count - 1), trees like `zero`, added up in this order; `count` may be traced and is at most
    `most`."""

    def __call__(
        self, each: Callable[[Int[Array, ""]], PyTree], count: int | Int[Array, ""], most: int, zero: PyTree
    ) -> PyTree: ...


def in_turn(each: Callable[[Int[Array, ""]], PyTree], count: Count, most: int, zero: PyTree) -> PyTree:
    """One after another: see `Total`."""
    return jax.lax.fori_loop(0, count, lambda k, total: trees.add(total, each(k)), zero)


_total: ContextVar[Total] = ContextVar("total", default=in_turn)


@contextmanager
def sharing_blocks(total: Total) -> Iterator[None]:
    """Gradients over many rows that are traced inside are added up by `total`, which may share their blocks among cores."""
    before = _total.set(total)
    try:
        yield
    finally:
        _total.reset(before)


def mean_over_rows(
    function: Callable[[PyTree], Float[Array, "B"]], view: View, most: int = MOST, total: Total = in_turn
) -> Float[Array, ""]:
    """The mean of a per-row function over the whole window, at `most` so many rows at once; NaN for an empty window. `total`
    adds the blocks up: `engines.devices` has one that shares them."""
    block = rows_at_once(function, view.arrays, most)
    block = block if block == most else 2 ** int(math.log2(block))

    def sum_of_block(k: Int[Array, ""]) -> Float[Array, ""]:
        position = k * block + jnp.arange(block)
        inside = position < view.size
        rows = view.index[view.start + jnp.where(inside, position, 0)]
        values = function(jax.tree.map(lambda a: a[rows], view.arrays))
        return jnp.sum(jnp.where(inside, values, 0).astype(jnp.zeros(()).dtype))

    whole = total(sum_of_block, (view.size + block - 1) // block, -(-view.index.shape[0] // block), jnp.zeros(()))
    return jnp.where(view.size > 0, whole / jnp.maximum(view.size, 1), jnp.nan)


def gradient_over_rows(loss: Callable[[PyTree, PyTree], Float[Array, ""]], x: PyTree, rows: PyTree) -> PyTree:
    """The gradient in x of loss(x, rows), a mean over rows."""
    size = jax.tree.leaves(rows)[0].shape[0]
    most = rows_at_once(functools.partial(loss, x), rows, size)
    block = largest_divisor(size, most)
    if block == size or 4 * block < most:  # no blocks are better than tiny ones, where 509 rows have no others
        return jax.grad(loss)(x, rows)
    parts = jax.tree.map(lambda a: a.reshape(size // block, block, *a.shape[1:]), rows)
    of_block, zero, count = jax.grad(loss), trees.zeros_like(x), size // block
    groups = largest_divisor(count, GROUPS)

    def of_group(j: Int[Array, ""]) -> PyTree:
        first, deep = j * (count // groups), count // groups
        return in_turn(lambda k: of_block(x, trees.take(parts, first + k)), deep, deep, zero)

    return trees.scale(1 / count, _total.get()(of_group, groups, groups, zero))


def rows_at_once(function: Callable[[PyTree], PyTree], arrays: PyTree, most: int) -> int:
    """How many of `most` rows like those of `arrays` are best given to `function` at once: all, or on a CPU as many as leave
    the widest array room."""
    if jax.default_backend() != "cpu":
        return most
    rows = jax.tree.map(lambda a: jax.ShapeDtypeStruct((most, *a.shape[1:]), a.dtype), arrays)
    traced = jax.make_jaxpr(function)(rows).jaxpr
    widest = max((value.aval.size * value.aval.dtype.itemsize for value in _made_of(traced, traced.invars)), default=1)
    return max(1, min(most, ROOM * most // widest))


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of `number` up to `most`."""
    return max(k for k in range(1, min(number, most) + 1) if number % k == 0)


def _made_of(traced: Any, given: Sequence[Any]) -> Iterator[Any]:
    """The values that a traced function makes of `given`, its rows: not what it makes of a model alone."""
    known = set(given)
    for step in traced.eqns:
        of_rows = [isinstance(value, Var) and value in known for value in step.invars]
        if not any(of_rows):
            continue
        known.update(step.outvars)
        yield from step.outvars
        for inner in _inside(step):
            same = len(inner.invars) == len(of_rows)
            yield from _made_of(inner, list(itertools.compress(inner.invars, of_rows)) if same else inner.invars)


def _inside(step: Any) -> list[Any]:
    """The traced functions that this step calls."""
    values = itertools.chain.from_iterable(v if isinstance(v, list | tuple) else [v] for v in step.params.values())
    return [inner for v in values if hasattr(inner := getattr(v, "jaxpr", v), "eqns")]
