"""Any solver at a client: an object with `solve` over named NumPy arrays, in whatever framework it likes.

    solve(x, steps, seed) -> y      x and y are {name: array}; `steps` local steps from x; `seed` for its draws
    value(x, y) -> float            optional: f2's value, where the client wants to say that itself

A repeated call with the same arguments must give the same answer, and x must stay as it is. zo_hfl asks for two solves per
direction around its x, with one seed (`coupled`); fedavg and fedprox for one at x.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree

from ... import trees
from ...errors import FedtierError, require
from ...problem import Bilevel
from .. import codec

METHODS = ("zo_hfl", "fedavg", "fedprox")  # whose client part is a solve and nothing else


@runtime_checkable
class Solver(Protocol):
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

    def solve(x: PyTree, start: PyTree, view: Any, spec: Any, steps: Any, key: Any) -> PyTree:
        def host(x: PyTree, start: PyTree, steps: Any, words: Any) -> PyTree:
            if int(steps) == 0:
                return trees.map(np.asarray, start)
            seed = int(np.asarray(words)[-1])
            found = solver.solve(_copies(x), int(steps), seed)
            return _checked(found, x)

        return _call(host, trees.map(_shape, x), x, start, steps, jax.random.key_data(key))

    if not hasattr(solver, "value"):
        return problem._replace(solve=solve)

    def f2(x: PyTree, y: PyTree, spec: Any) -> Any:
        def host(x: PyTree, y: PyTree) -> np.ndarray:
            return np.asarray(solver.value(_copies(x), _copies(y)), np.float32)  # pyright: ignore[reportAttributeAccessIssue]

        return _call(host, jax.ShapeDtypeStruct((), np.float32), x, y)

    return problem._replace(solve=solve, f2=f2)


def _call(host: Callable[..., Any], like: PyTree, *arguments: Any) -> PyTree:
    return jax.pure_callback(host, like, *arguments, vmap_method="sequential")


def _shape(a: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape, a.dtype)


def _copies(x: PyTree) -> dict[str, np.ndarray]:
    return {name: np.array(a) for name, a in codec.to_arrays(x).items()}


def _checked(found: Any, x: PyTree) -> PyTree:
    require(isinstance(found, dict), "solver", type(found).__name__, "must return {name: array}, like its x")
    arrays = {name: np.asarray(a) for name, a in found.items()}
    wanted = codec.to_arrays(x)
    for name, array in arrays.items():
        finite = array.dtype.kind in "fiu" and bool(np.isfinite(array).all())
        require(finite, f"solver: {name}", array.dtype.name, "must hold finite numbers")
        arrays[name] = array.astype(wanted[name].dtype) if name in wanted else array
    return codec.from_arrays(arrays, x, "solver")
