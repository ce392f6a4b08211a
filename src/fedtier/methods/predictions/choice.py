"""How a client chooses by rows that what it chooses from has not seen.

The rows are dealt into K parts, row k to part k mod K. Each part is kept back once, from a model that learns from the others;
the parts together say of every row how a model does that has not seen it. Taken is what loses least, where it loses less than
the first choice by more than two standard errors of the difference; in doubt, and with fewer than two rows, the first. A loss
is the square of the distance between probabilities and label (Brier 1950), which stays bounded where a tree is sure and wrong,
and says more of few rows than errors do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...federation import View, mean_over_rows
from ...problem import Rows
from .divergences import Outputs

DOUBT = 2.0  # standard errors
Lost = Callable[[Rows], Float[Array, "A B"]]  # rows -> what each of A choices loses on each


class Evidence(NamedTuple):
    """How much more each choice loses than the first."""

    rows: Int[Array, "*K"]
    total: Float[Array, "*K A"]
    squares: Float[Array, "*K A"]


@partial(jax.jit, static_argnums=2, inline=True)  # one program where nothing around it is compiled
def dealt(view: View, part: Int[Array, ""], parts: int) -> tuple[View, View]:
    """(the rows of `view` without this part, this part)."""
    place = jnp.arange(view.index.shape[0]) - view.start
    inside = (place >= 0) & (place < view.size)
    kept = inside & (place % parts == part)
    index = view.index[jnp.argsort(jnp.where(kept, 1, jnp.where(inside, 0, 2)), stable=True)]
    count = jnp.sum(kept).astype(view.size.dtype)
    first = jnp.zeros_like(view.start)
    rest = view._replace(index=index, start=first, size=view.size - count)
    return rest, rest._replace(start=first + view.size - count, size=count)


@jax.jit
def losses(outputs: Outputs, rows: Rows) -> Float[Array, "B"]:
    """How far probabilities are from the label, or a number from it: squared."""
    if jnp.issubdtype(rows.labels.dtype, jnp.floating):
        return (outputs[:, 0] - rows.labels) ** 2
    return jnp.sum((jax.nn.softmax(outputs) - jax.nn.one_hot(rows.labels, outputs.shape[1])) ** 2, axis=1)


def evidence(lost: Lost, kept: View) -> Evidence:
    """Of two choices, in a compiled program."""

    def moment(power: int) -> Float[Array, "A"]:
        def more(rows: Rows) -> Float[Array, "B"]:
            first, second = lost(rows)
            return (second - first) ** power

        total = jnp.where(kept.size > 0, kept.size * mean_over_rows(more, kept), 0.0)
        return jnp.stack([jnp.zeros_like(total), total])

    return Evidence(kept.size, moment(1), moment(2))


def evidence_asked(lost: Lost, kept: View, choices: int) -> Evidence:
    """Of models that have no compiled form: they are asked for all rows at once."""
    first, size = int(kept.start), int(kept.size)
    if not size:
        return Evidence(kept.size, jnp.zeros(choices), jnp.zeros(choices))
    more = lost(jax.tree.map(lambda a: a[kept.index[first : first + size]], kept.arrays))
    more = more - more[:1]
    return Evidence(kept.size, jnp.sum(more, axis=1), jnp.sum(more**2, axis=1))


@partial(jax.jit, inline=True)
def decided(parts: Evidence) -> Int[Array, ""]:
    """The place of what is taken, by the evidence [K] of all parts."""
    rows, total, squares = (jnp.sum(a, axis=0) for a in parts)
    count = jnp.maximum(rows, 2).astype(total.dtype)
    mean = total / count
    error = jnp.sqrt(jnp.maximum(squares / count - mean**2, 0.0) / (count - 1))
    best = jnp.argmin(mean)
    return jnp.where((rows > 1) & (mean[best] + DOUBT * error[best] < 0), best, 0)
