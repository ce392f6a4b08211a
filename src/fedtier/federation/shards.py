"""Everyone's data in one flat array, seen through windows: no padding, no masks, no copies.

`index` is a permutation of the rows, ordered as  test | server | client 0 train, test | client 1 train, test | ...
so each party's rows are one contiguous window of it (the CSR layout), and shapes do not depend on the partition:
different partitions of the same data run as one vectorised program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from .. import keys

WIDE = 64  # numbers in a row from which copying beats gathering on a CPU (docs/scaling.md)


class Window(NamedTuple):
    """One party's rows: a contiguous part of `Federation.index`."""

    start: Any  # first position in `index`
    size: Any  # number of rows


class Shown(NamedTuple):
    """Rows of the server that every client may see: inputs without labels, on which models are compared by what they say."""

    inputs: Array  # [P, ...]
    known: Bool[Array, "P"]  # False in the places that the server has no rows for


class View(NamedTuple):
    """The rows one party sees. All a method ever learns about data."""

    arrays: PyTree  # leaves [N, ...]: everyone's rows
    index: Int[Array, "N"]
    start: Int[Array, ""]
    size: Int[Array, ""]
    shown: Shown | tuple[()] = ()  # at a client, where the method shows rows


class Federation(NamedTuple):
    """Who has which rows, and how the clients differ. A pytree: pass it as an argument, never close over it."""

    arrays: PyTree  # leaves [N, ...]
    index: Int[Array, "N"]
    test: Window  # the global test rows
    server: Window  # the server's own rows
    train: Window  # [m] each client's training rows
    held: Window  # [m] each client's own test rows; size 0 where it has none
    spec: Any  # leaves [m, ...]: Spec or the user's own

    @property
    def clients(self) -> int:
        return self.train.start.shape[-1]

    def view(self, window: Window) -> View:
        return View(self.arrays, self.index, window.start, window.size)

    def shown(self, most: int) -> Shown | tuple[()]:
        """What every client may see of the server's rows where a method shows `most`; () where it shows none."""
        return shown_rows(self.view(self.server), most) if most else ()


def sample(view: View, key: Key[Array, ""], batch: int) -> PyTree:
    """`batch` rows drawn with replacement: the unbiased oracle that the theory asks for."""
    return rows_at(view, draw(view, key, batch))


def shown_rows(view: View, most: int) -> Shown:
    """The first `most` rows of the server's window; all of them where it has fewer, and zeros in the other places."""
    places = jnp.arange(most)
    known = places < view.size
    inputs = view.arrays.inputs[view.index[view.start + jnp.where(known, places, 0)]]
    return Shown(jnp.where(known.reshape(-1, *[1] * (inputs.ndim - 1)), inputs, 0), known)


def draw(view: View, key: Key[Array, ""], batch: int) -> Int[Array, "B"]:
    """Which rows `sample` takes. Cheap to ask for many minibatches ahead: these are numbers, not rows."""
    return _take(view.index, view.start + keys.below(key, view.size, batch))


def rows_at(view: View, numbers: Int[Array, "B"]) -> PyTree:
    """The rows with these numbers. On a CPU wide rows are copied one by one: XLA's gather takes three times as long there."""
    return jax.tree.map(lambda a: _copied(a, numbers) if _is_wide(a) else _take(a, numbers), view.arrays)


def _is_wide(a: Array) -> bool:
    return jax.default_backend() == "cpu" and a.size >= WIDE * a.shape[0]


def _copied(a: Array, rows: Int[Array, "B"]) -> Array:
    """a[rows], four rows to a turn of the loop: a turn costs as much as copying one."""
    flat = a.reshape(a.shape[0], -1)

    def put(k: Any, out: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(out, jax.lax.dynamic_slice_in_dim(flat, rows[k], 1), k, axis=0)

    count = rows.shape[0]
    copied = jax.lax.fori_loop(0, count, put, jnp.zeros((count, flat.shape[1]), flat.dtype), unroll=4)
    return copied.reshape(count, *a.shape[1:])


def _take(a: Array, rows: Int[Array, "*B"]) -> Array:
    """a[rows] without the code for negative and too large numbers."""
    return a.at[rows].get(mode="promise_in_bounds")
