"""How rows of work become a program on one device: one after another, all at once, or in chunks of similar length."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from .. import trees
from .devices import rank

SMALL, CHUNK = 2048, 16  # numbers a client handles, and clients in a chunk: by measurement, docs/scaling.md
BUSY, WORTH = 2**23, 2 / 3  # numbers handled at once that keep a GPU busy; the most of the work for which it takes chunks

Layout = str | int  # "map", "vmap", "auto", or the size of a chunk


def each(
    function: Callable[..., PyTree], members: PyTree, layout: Layout = "auto", steps: Int[Array, "S"] | None = None
) -> PyTree:
    """`function` of every row of `members`: by map, by vmap, or in chunks of rows with similar `steps`; "auto" is map on a
    CPU and vmap on a GPU."""
    if layout == "auto":
        layout = "map" if jax.default_backend() == "cpu" else "vmap"
    if isinstance(layout, int):
        place = jnp.arange(rows_of(members)) if steps is None else rank(steps)
        order = jnp.zeros_like(place).at[place].set(jnp.arange(len(place)))
        return trees.take(jax.lax.map(function, trees.take(members, order), batch_size=layout), place)
    return jax.lax.map(function, members) if layout == "map" else jax.vmap(function)(members)


def layout_for(rows: int, numbers: int) -> Layout:
    """What "auto" means for a cohort of `rows` clients of which each handles so many `numbers`: models and state, not rows."""
    if numbers > SMALL or jax.default_backend() != "cpu":
        return "auto"
    chunk = max(size for size in range(1, CHUNK + 1) if rows % size == 0)  # a remainder would be a second program
    return chunk if chunk >= CHUNK // 2 else "map"  # fewer at once gain nothing, and wait for the slowest


def layout_of_plan(steps: Int[np.ndarray, "seeds R S"], numbers: int) -> Layout:
    """What "auto" means for a plan known beforehand: on one GPU chunks that keep it busy, where models are large and steps
    so unequal that all at once would mostly wait for the slowest client; else what `each` and `layout_for` say."""
    seeds, _, cohort = steps.shape
    if len(jax.devices()) > 1 or jax.default_backend() == "cpu":
        return "auto"
    fits = [size for size in range(1, cohort) if cohort % size == 0 and size * seeds * numbers >= BUSY]
    return fits[0] if fits and _work(steps, fits[0]) < WORTH * _work(steps, cohort) else "auto"


def _work(steps: Int[np.ndarray, "seeds R S"], size: int) -> int:
    """Steps of all rows in chunks of `size`, those that wait for the slowest of their chunk and of the seeds included."""
    return size * int(-np.sort(-steps, axis=-1)[..., ::size].max(axis=0).sum())


def rows_of(members: PyTree) -> int:
    return jax.tree.leaves(members)[0].shape[0]
