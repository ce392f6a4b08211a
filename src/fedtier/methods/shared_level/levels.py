"""The two levels at a client: their variables, their slopes, the rows that each of them sees, and the loop."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...federation import View
from ...keys import Tag
from ...problem import SharedLower, second_slopes
from ..method import ClientSpec, Turn
from ..solvers import ProjectedSgd


class Levels(NamedTuple):
    """The server's state and its message."""

    x: PyTree  # the upper level's variables
    y: PyTree  # the lower level's: the model [n]
    v: PyTree  # the adjoint [n]


def walked(
    problem: SharedLower,
    local: ProjectedSgd,
    rates: tuple[ArrayLike, ArrayLike, ArrayLike],
    start: Levels,
    view: View,
    spec: ClientSpec,
    turn: Turn,
) -> tuple[Levels, Float[Array, ""]]:
    """(x, y and v after H_i steps of all three at once, A_i = sum_t tilde_gamma_t); `rates` are factors on their steps."""
    key, (below, above) = keys.at(turn.key, Tag.SOLVE), halves(view, problem.halves)

    def step(t: ArrayLike, made: tuple[Levels, Array]) -> tuple[Levels, Array]:
        at, path = made
        rows_g, rows_f = local.sample(below, keys.at(key, t, 0)), local.sample(above, keys.at(key, t, 1))
        slopes, length = slopes_at(problem, at, rows_f, rows_g), spec.step_scale * local.step(t)
        moved = (trees.axpy(-length * rate, d, a) for rate, d, a in zip(rates, slopes, at, strict=True))
        return Levels(*moved), path + length

    return jax.lax.fori_loop(0, turn.steps, step, (start, jnp.zeros(())))


@second_slopes()
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
