"""The two levels at a client: their variables, their slopes, and the rows that each of them sees."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ... import trees
from ...federation import View
from ...problem import SharedLower


class Levels(NamedTuple):
    """The server's state and its message."""

    x: PyTree  # the upper level's variables
    y: PyTree  # the lower level's: the model [n]
    v: PyTree  # the adjoint [n]


def slopes_at(problem: SharedLower, at: Levels, rows_f: PyTree, rows_g: PyTree) -> Levels:
    """What x, y and v step against."""

    def slope_g(y: PyTree) -> tuple[PyTree, PyTree]:
        return jax.grad(problem.g, argnums=(0, 1))(at.x, y, rows_g)

    (_, g_y), (g_xy_v, g_yy_v) = jax.jvp(slope_g, (at.y,), (at.v,))
    f_x, f_y = jax.grad(problem.f, argnums=(0, 1))(at.x, at.y, rows_f)
    return Levels(trees.sub(f_x, g_xy_v), g_y, trees.sub(g_yy_v, f_y))


def halves(view: View, split: bool) -> tuple[View, View]:
    """The rows of g and those of f; a client with one row has it in both."""
    if not split:
        return view, view
    cut = (view.size + 1) // 2
    after = view._replace(start=view.start + jnp.minimum(cut, view.size - 1), size=jnp.maximum(view.size - cut, 1))
    return view._replace(size=cut), after
