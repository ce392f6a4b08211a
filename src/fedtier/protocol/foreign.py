"""Any solver at a client: an object with `solve` over named NumPy arrays, in whatever framework it likes.

    solve(x, steps, seed) -> y      x and y are {name: array}; `steps` local steps from x; `seed` for its draws
    value(x, y) -> float            optional: f2's value, where the client wants to say that itself

A repeated call with the same arguments must give the same answer, and x must stay as it is. zo_hfl asks for two solves per
direction around its x, with one seed (`coupled`); fedavg and fedprox for one at x.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching
from jax.tree_util import PyTreeDef
from jaxtyping import Array, ArrayLike, Key, PyTree

from .. import trees
from ..errors import FedtierError, require
from ..problem import Bilevel
from ..storage import named_arrays
from .letters import NotFinite


@runtime_checkable
class Solver(Protocol):
    """A client's own solver: named NumPy arrays in, named NumPy arrays out."""

    def solve(self, x: dict[str, np.ndarray], steps: int, seed: int) -> dict[str, np.ndarray]: ...


def find(name: str, folder: Path) -> Callable[..., Solver]:
    """The factory that "module:factory" names, looked for in `folder` first. Only ever a name from the site's own file."""
    module, colon, factory = name.partition(":")
    require(bool(colon and module and factory), "solver", name, "must read module:factory", 'solver = "my_client:make"')
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise FedtierError("solver", name, f"cannot be loaded: {error}", f"put {module}.py beside the site's file") from error


def adopt(problem: Bilevel, solver: Solver) -> Bilevel:
    """The problem with the client's own solver, and its own value of f2 where it has one. Run it without jit."""

    def solve(x: PyTree, start: PyTree, view: PyTree, spec: PyTree, steps: ArrayLike, key: Key[Array, ""]) -> PyTree:
        def host(x: PyTree, start: PyTree, steps: np.ndarray, words: np.ndarray) -> PyTree:
            if int(steps) == 0:
                return trees.map(np.asarray, start)
            seed = int(np.asarray(words)[-1])
            found = solver.solve(_copies(x), int(steps), seed)
            return _checked(found, x)

        return call(host, trees.map(_shape, x), x, start, steps, jax.random.key_data(key))

    if not hasattr(solver, "value"):
        return problem._replace(solve=solve)

    def f2(x: PyTree, y: PyTree, spec: PyTree) -> Array:
        def host(x: PyTree, y: PyTree) -> np.ndarray:
            return np.asarray(solver.value(_copies(x), _copies(y)), np.float32)  # pyright: ignore[reportAttributeAccessIssue]

        return call(host, jax.ShapeDtypeStruct((), np.float32), x, y)

    return problem._replace(solve=solve, f2=f2)


# A primitive without a lowering: its implementation is a call in plain Python, row by row under vmap. JAX's own callbacks
# go through XLA even without jit, where an error loses its words and a waiting solver may wait for ever.
Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]  # of the results, leaf by leaf
_foreign = Primitive("fedtier_foreign")
_foreign.multiple_results = True


@_foreign.def_impl
def _now(*flat: Array, host: Callable[..., PyTree], into: PyTreeDef, like: Shapes) -> list[Array]:
    found = host(*jax.tree.unflatten(into, [np.asarray(a) for a in flat]))
    return [jnp.asarray(a) for a in jax.tree.leaves(found)]


@_foreign.def_abstract_eval
def _shapes(*flat: ShapedArray, host: Callable[..., PyTree], into: PyTreeDef, like: Shapes) -> list[ShapedArray]:
    return [ShapedArray(shape, dtype) for shape, dtype in like]


def _rows(flat: Sequence[Array], axes: Sequence[int | None], **how: object) -> tuple[list[Array], list[int]]:
    count = next(a.shape[axis] for a, axis in zip(flat, axes, strict=True) if axis is not None)
    rows = [
        _foreign.bind(*(a if axis is None else jnp.take(a, k, axis) for a, axis in zip(flat, axes, strict=True)), **how)
        for k in range(count)
    ]
    return [jnp.stack(column) for column in zip(*rows, strict=True)], [0] * len(rows[0])


batching.primitive_batchers[_foreign] = _rows


def call(host: Callable[..., PyTree], like: PyTree, *arguments: PyTree) -> PyTree:
    """host(*arguments) with NumPy leaves, a tree shaped like `like`: in plain Python, so only where nothing is compiled."""
    flat, into = jax.tree.flatten(arguments)
    leaves, out = jax.tree.flatten(like)
    shapes = tuple((s.shape, np.dtype(s.dtype)) for s in leaves)
    return jax.tree.unflatten(out, _foreign.bind(*map(jnp.asarray, flat), host=host, into=into, like=shapes))


def _shape(a: Array | np.ndarray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape, a.dtype)


def _copies(x: PyTree) -> dict[str, np.ndarray]:
    return {name: np.array(a) for name, a in named_arrays.to_arrays(x).items()}


def _checked(found: dict[str, np.ndarray], x: PyTree) -> PyTree:
    require(isinstance(found, dict), "solver", type(found).__name__, "must return {name: array}, like its x")
    arrays = {name: np.asarray(a) for name, a in found.items()}
    wanted = named_arrays.to_arrays(x)
    for name, array in arrays.items():
        require(array.dtype.kind in "fiu", f"solver: {name}", array.dtype.name, "must hold numbers")
        if not np.isfinite(array).all():
            raise NotFinite(f"solver: {name}", array.dtype.name, "must hold finite numbers")
        arrays[name] = array.astype(wanted[name].dtype) if name in wanted else array
    return named_arrays.from_arrays(arrays, x, "solver")
