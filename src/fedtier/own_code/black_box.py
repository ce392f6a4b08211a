"""A client's lower level as a closed program: a function with NumPy in and NumPy out.

    local(x, rows, steps, seed) -> y

`x` is the point that the method asks about, a tree like the model; `rows` are all training rows of the client,
`Rows(inputs, labels, weights)`; `steps` is how much work it may do, `seed` draws the same for the two solves of a direction.
The answer has the form of x and is projected on Y. It may be compiled, or call any program: it is never looked into.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from .. import trees
from ..errors import FedtierError, require
from ..federation import View
from ..problem import Bilevel
from ..protocol import foreign

Solver = Callable[..., PyTree]  # (x, rows, steps, seed) -> y
ARGUMENTS = "local(x, rows, steps, seed)"


def check_solver(solver: Solver) -> None:
    """Refuses a function that cannot be called with the four arguments."""
    try:
        inspect.signature(solver).bind(None, None, 0, 0)
    except TypeError as error:
        rule = f"is called as {ARGUMENTS}, but {error}"
        raise FedtierError("local", getattr(solver, "__name__", solver), rule, f"def {ARGUMENTS}: return y") from None
    except ValueError:  # a compiled function without a signature: it is called as it is
        return


def adopt_solver(problem: Bilevel, solver: Solver) -> Bilevel:
    """The problem whose lower level `solver` solves. Nothing that contains it can be compiled: see `uncompiled`."""

    def solve(x: PyTree, start: PyTree, view: View, spec: PyTree, steps: ArrayLike, key: Key[Array, ""]) -> PyTree:
        def host(x: PyTree, start: PyTree, steps: np.ndarray, words: np.ndarray, view: View) -> PyTree:
            if int(steps) == 0:
                return start
            given = trees.map(np.array, x)  # its own copy: x must stay as it is
            return _like(solver(given, _rows(view), int(steps), int(np.asarray(words)[-1])), x)

        shapes = trees.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), x)
        return foreign.call(host, shapes, x, start, steps, jax.random.key_data(key), view)

    return problem._replace(solve=solve)


def _rows(view: View) -> PyTree:
    """All rows of the window."""
    first = int(view.start)
    index = np.asarray(view.index)[first : first + int(view.size)]
    return trees.map(lambda a: np.asarray(a)[index], view.arrays)


def _like(found: PyTree, x: PyTree) -> PyTree:
    """What the solver returned, in the numbers of x; refused where its form is another. Numbers that are not finite make the
    reply a lost one."""
    same = jax.tree.structure(found) == jax.tree.structure(x)
    require(same, "local", type(found).__name__, f"must return what it gets as x, a {type(x).__name__}")

    def leaf(new: ArrayLike, old: np.ndarray) -> np.ndarray:
        array = np.asarray(new)
        fits = array.dtype.kind in "fiu" and array.shape == old.shape
        require(fits, "local", f"{array.dtype} {array.shape}", f"must return numbers of the shape {old.shape}")
        return array.astype(old.dtype)

    return trees.map(leaf, found, x)
