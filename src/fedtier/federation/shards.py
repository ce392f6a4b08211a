"""Everyone's data in one flat array, seen through windows: no padding, no masks, no copies.

`index` is a permutation of the rows, ordered as  test | server | client 0 train, test | client 1 train, test | ...
so each party's rows are one contiguous window of it (the CSR layout), and shapes do not depend on the partition:
different partitions of the same data run as one vectorised program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from .. import keys
from ..errors import NOTHING, FedtierError, require, share
from ..problem import Spec
from .shares import count_of

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


class Spared(NamedTuple):
    """Natural clients, each of whom keeps some rows whatever is drawn for the test and the server."""

    owner: np.ndarray  # [N]
    least: int


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


def mean_over_rows(function: Callable[[PyTree], Float[Array, "B"]], view: View, block: int = 256) -> Float[Array, ""]:
    """The mean of a per-row function over the whole window, block by block; NaN for an empty window."""

    def add_block(k: Int[Array, ""], total: Float[Array, ""]) -> Float[Array, ""]:
        position = k * block + jnp.arange(block)
        inside = position < view.size
        rows = view.index[view.start + jnp.where(inside, position, 0)]
        values = function(jax.tree.map(lambda a: a[rows], view.arrays))
        return total + jnp.sum(jnp.where(inside, values, 0).astype(total.dtype))

    blocks = (view.size + block - 1) // block
    total = jax.lax.fori_loop(0, blocks, add_block, jnp.zeros(()))
    return jnp.where(view.size > 0, total / jnp.maximum(view.size, 1), jnp.nan)


def build(
    arrays: PyTree,
    assign: Callable[[np.random.Generator, np.ndarray], np.ndarray],
    *,
    clients: int,
    rng: np.random.Generator,
    server_share: float = 0.3,
    test_share: float = 0.1,
    client_test_share: float = 0.0,
    spec: Any = None,
    test_rng: np.random.Generator | None = None,
    spared: Spared | None = None,
    strata: np.ndarray | None = None,
    test: np.ndarray | None = None,
) -> Federation:
    """Splits N rows: `test_share` of all for the global test, `server_share` of the rest for the server, and what is
    left among the clients by `assign(rng, rows) -> owner of each of these rows` (see `partition`). Each client keeps
    `client_test_share` of its own rows, at most all but one, for its personal test: the last of them, or, with `strata` [N],
    the same share of each stratum (the classes, for example). With `test_rng` the test rows are drawn from it alone, so that
    federations that differ in `rng` share them and no search on one sees another's; with `test`, numbers of rows, these are the
    test rows. `spared` owners keep some of their rows.
    Shares are rounded to whole rows, halves up.
    """
    share("test_share", test_share)
    share("server_share", server_share)
    share("client_test_share", client_test_share)
    total = _check_rows(arrays)
    tested = count_of(test_share, total) if test is None else len(test)
    served = count_of(server_share, total - tested)
    if test is None:
        order = (rng if test_rng is None else test_rng).permutation(total)
    else:
        order = np.concatenate([test, rng.permutation(np.setdiff1d(np.arange(total), test))])
    order = order if spared is None else _spared(order, 0, tested, spared)
    if test_rng is not None:
        order = np.concatenate([order[:tested], rng.permutation(order[tested:])])
    order = order if spared is None else _spared(order, tested, tested + served, spared)
    rest = order[tested + served :]
    owner = _check_owner(assign(rng, rest), len(rest), clients)
    sizes = np.bincount(owner, minlength=clients)
    places = np.argsort(owner, kind="stable") if strata is None else _stratified(rng, owner, np.asarray(strata)[rest])
    index = np.concatenate([order[: tested + served], rest[places]])

    start = tested + served + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    held = np.minimum(count_of(client_test_share, sizes), sizes - 1)
    train = sizes - held
    if spec is None:
        spec = Spec(weight=train / train.mean(), radius=np.full(clients, np.inf), step_scale=np.ones(clients))
    return Federation(
        arrays=jax.tree.map(jnp.asarray, arrays),
        index=_ints(index),
        test=Window(_ints(0), _ints(tested)),
        server=Window(_ints(tested), _ints(served)),
        train=Window(_ints(start), _ints(train)),
        held=Window(_ints(start + train), _ints(held)),
        spec=jax.tree.map(_floats, _check_spec(spec, clients)),
    )


def of_parts(
    arrays: PyTree, *, test: np.ndarray, server: np.ndarray, train: Sequence[np.ndarray], held: Sequence[np.ndarray]
) -> Federation:
    """The federation of rows by their numbers: `train` and `held` have one array for each client. Nothing is drawn, and a
    row may stand in several parts."""
    parts = [test, server, *(rows for pair in zip(train, held, strict=True) for rows in pair)]
    sizes = np.asarray([len(rows) for rows in parts])
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    windows = [Window(_ints(start[k]), _ints(sizes[k])) for k in (0, 1, slice(2, None, 2), slice(3, None, 2))]
    rows, clients = sizes[2::2], len(train)
    spec = Spec(weight=rows / rows.mean(), radius=np.full(clients, np.inf), step_scale=np.ones(clients))
    index = _ints(np.concatenate(parts))
    return Federation(jax.tree.map(jnp.asarray, arrays), index, *windows, spec=jax.tree.map(_floats, spec))


def _spared(order: np.ndarray, first: int, last: int, spared: Spared) -> np.ndarray:
    """`order` with rows from first .. last exchanged for later ones, so that every owner keeps `least` rows after `last`.

    Only rows of owners who would be left with fewer come back, for rows of owners who have more than that to spare.
    """
    owner, least = np.asarray(spared.owner)[order], spared.least
    kept = np.bincount(owner[last:], minlength=owner.max() + 1)
    short = np.maximum(0, least - kept)
    if not short.any():
        return order
    inside = first + np.flatnonzero(_rank(owner[first:last]) < short[owner[first:last]])
    spare = last + np.flatnonzero(_rank(owner[last:]) >= least)
    fits = len(inside) == short.sum() and len(spare) >= len(inside)
    rule = f"{int((short > 0).sum())} owners cannot keep {least} rows beside the test and the server"
    hint = "leave fewer rows to the server or the test, or drop owners with few rows"
    require(bool(fits), "owner", NOTHING, rule, hint)
    order = order.copy()
    order[inside], order[spare[: len(inside)]] = order[spare[: len(inside)]], order[inside].copy()
    return order


def _rank(group: np.ndarray) -> np.ndarray:
    """How many earlier rows are of the same group."""
    places = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[places], group[places], side="left")
    rank = np.empty(len(group), int)
    rank[places] = np.arange(len(group)) - starts
    return rank


def _stratified(rng: np.random.Generator, owner: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Places of the rows, client by client, so that the last rows of a client are of each stratum in proportion."""
    _, cell = np.unique(owner * (int(strata.max()) + 1) + strata, return_inverse=True)
    sizes = np.bincount(cell)
    evenly = (_rank(cell) + rng.random(len(sizes))[cell]) / sizes[cell]  # spread over 0 .. 1 within each stratum
    return np.lexsort((evenly, owner))


def with_seat(federation: Federation) -> Federation:
    """The server's rows as client number m beside the m others, so that a baseline sees the same data as `zo_hfl`.

    The seat's weight is its share of the rows, its other limits are the clients' average.
    """
    size = jnp.mean(federation.train.size / federation.spec.weight)
    spec = jax.tree.map(lambda a: jnp.concatenate([a, jnp.mean(a, axis=0, keepdims=True)]), federation.spec)
    weight = federation.spec.weight
    spec = spec._replace(weight=jnp.append(weight, (federation.server.size / size).astype(weight.dtype)))
    return federation._replace(
        train=Window(*(jnp.append(a, b) for a, b in zip(federation.train, federation.server, strict=True))),
        held=Window(*(jnp.append(a, 0) for a in federation.held)),
        spec=spec,
    )


def _check_rows(arrays: PyTree) -> int:
    leaves = jax.tree.leaves(arrays)
    lengths = {leaf.shape[0] for leaf in leaves}
    require(len(lengths) == 1, "arrays", sorted(lengths), "must all have the same number of rows")
    for name, leaf in zip(jax.tree_util.tree_leaves_with_path(arrays), leaves, strict=True):
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
            row = int(np.argwhere(~np.isfinite(np.asarray(leaf)))[0][0])
            where = f"data{jax.tree_util.keystr(name[0])}"
            raise FedtierError(where, NOTHING, f"row {row} holds a NaN or an infinite value", "clean or impute the rows first")
    return lengths.pop()


def _check_owner(owner: Any, rows: int, clients: int) -> np.ndarray:
    owner = np.asarray(owner)
    fits = owner.shape == (rows,) and np.issubdtype(owner.dtype, np.integer) and rows > 0
    fits = fits and owner.min() >= 0 and owner.max() < clients
    require(bool(fits), "owner", NOTHING, f"must be one number from 0 to {clients - 1} for each of {rows} rows")
    empty = np.flatnonzero(np.bincount(owner, minlength=clients) == 0)
    hint = "give every client a row, or use fewer clients"
    require(not len(empty), "owner", NOTHING, f"client {empty[0] if len(empty) else ''} has no rows", hint)
    return owner


def _check_spec(spec: Any, clients: int) -> Any:
    for field in ("weight", "step_scale"):
        require(hasattr(spec, field), "spec", type(spec).__name__, f"must have a field {field!r}", "see fedtier.problem.Spec")
    for path, leaf in jax.tree_util.tree_leaves_with_path(spec):
        rows = np.shape(leaf)[0] if np.ndim(leaf) else None
        name = f"spec{jax.tree_util.keystr(path)}"
        require(rows == clients, name, np.shape(leaf), f"must have one row for each of the {clients} clients")
    return spec


def _ints(a: Any) -> Array:
    return jnp.asarray(a, jnp.int32)


def _floats(a: Any) -> Array:
    return jnp.asarray(a, jnp.result_type(float))
