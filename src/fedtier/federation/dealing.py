"""Rows are dealt out: to the test, to the server, to the clients, and each client's own to train on and to be judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..errors import NOTHING, FedtierError, require, share
from ..problem import Spec
from .shards import Federation, Window
from .shares import count_of


class Spared(NamedTuple):
    """Natural clients, each of whom keeps some rows whatever is drawn for the test and the server."""

    owner: np.ndarray  # [N]
    least: int


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
