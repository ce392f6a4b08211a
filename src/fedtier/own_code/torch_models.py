"""A PyTorch module as a model: PyTorch computes outputs and gradients, called from the compiled program.

Its parameters are a dict of arrays by PyTorch's names; it starts from the module's own weights, the same for all seeds. What it
does must depend on its parameters and inputs alone: layers that remember (running means) or draw (dropout) are as in eval().
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Key, PyTree

from ..errors import require
from ..problem import Model
from ..problem.models import Apply

if TYPE_CHECKING:
    from torch import Tensor  # pyright: ignore[reportMissingImports]
    from torch.nn import Module  # pyright: ignore[reportMissingImports]


def is_torch(made: object) -> bool:
    """Whether it is a PyTorch module; PyTorch is never imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(made, torch.nn.Module)


def from_torch(module: Module, name: str) -> Model:
    """The module as a Model over a batch [B, ...]. A call into PyTorch costs a fraction of a millisecond: a small net is many
    times slower than one of ours."""
    import torch  # pyright: ignore[reportMissingImports]

    module = module.eval()
    first = {key: np.array(value.detach().numpy()) for key, value in module.named_parameters()}
    require(bool(first), "model", name, "has no parameters to train")
    kinds = {str(value.dtype) for value in first.values()}
    require(kinds == {"float32"}, "model", name, f"has parameters of {', '.join(sorted(kinds))}", "module.float()")

    alone = threading.Lock()  # functional_call puts the parameters into the module for the time of a call; cores call at once

    def called(x: dict[str, Tensor], inputs: np.ndarray) -> Tensor:
        with alone:
            return torch.func.functional_call(module, x, (torch.from_numpy(np.array(inputs)),))

    def tensors(x: dict[str, np.ndarray]) -> dict[str, Tensor]:
        return {key: torch.from_numpy(np.array(value)).requires_grad_() for key, value in x.items()}

    def outputs(x: dict[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return called(tensors(x), inputs).numpy()

    def gradient(x: dict[str, np.ndarray], inputs: np.ndarray, seen: np.ndarray) -> dict[str, np.ndarray]:
        given = tensors(x)
        found = called(given, inputs)
        slopes = torch.autograd.grad(found, list(given.values()), torch.from_numpy(np.array(seen)), allow_unused=True)
        return {
            key: np.zeros(x[key].shape, np.float32) if slope is None else slope.numpy()
            for key, slope in zip(given, slopes, strict=True)
        }

    def width(inputs: Array) -> int:
        return outputs(first, np.zeros((1, *inputs.shape[1:]), np.float32)).shape[-1]

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        return {name: jnp.asarray(value) for name, value in first.items()}

    return Model(name, init, _apply(outputs, gradient, width))


def _apply(outputs: Callable, gradient: Callable, width: Callable[[Array], int]) -> Apply:
    """outputs(x, inputs) with its derivative in x; the inputs are data."""

    @jax.custom_vjp
    def apply(x: PyTree, inputs: Array) -> Array:
        (found,) = _call(outputs, [((inputs.shape[0], width(inputs)), np.dtype(np.float32))], x, inputs)
        return found

    def forward(x: PyTree, inputs: Array) -> tuple[Array, tuple]:
        return apply(x, inputs), (x, inputs)

    def backward(kept: tuple, seen: Array) -> tuple[PyTree, None]:
        x, inputs = kept
        leaves, form = jax.tree.flatten(x)
        shapes = [(leaf.shape, np.dtype(np.float32)) for leaf in leaves]

        def slopes(x: PyTree, inputs: np.ndarray, seen: np.ndarray) -> list[np.ndarray]:
            return jax.tree.leaves(gradient(x, inputs, seen))

        return jax.tree.unflatten(form, _call(slopes, shapes, x, inputs, seen)), None

    apply.defvjp(forward, backward)
    return lambda x, inputs: apply(x, jnp.asarray(inputs, jnp.float32))


# A primitive of our own rather than jax.pure_callback: the latter hands out JAX's arrays, and to read these inside a running
# program can wait for ever. Here PyTorch gets NumPy's, and rows that share one model go to it in one call.
Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]  # of the results
_network = Primitive("fedtier_network")
_network.multiple_results = True


def _call(host: Callable, like: Sequence[tuple[tuple[int, ...], np.dtype]], x: PyTree, *rest: Array) -> list[Array]:
    flat, form = jax.tree.flatten(x)
    return _network.bind(*map(jnp.asarray, (*flat, *rest)), host=host, form=form, numbers=len(flat), like=tuple(like))


@_network.def_impl
def _now(*flat: Array, host: Callable, form: PyTreeDef, numbers: int, like: Shapes) -> list[Array]:
    arrays = [np.asarray(a) for a in flat]
    found = host(jax.tree.unflatten(form, arrays[:numbers]), *arrays[numbers:])
    return [jnp.asarray(a) for a in (found if isinstance(found, list) else [found])]


@_network.def_abstract_eval
def _shapes(*flat: ShapedArray, host: Callable, form: PyTreeDef, numbers: int, like: Shapes) -> list[ShapedArray]:
    return [ShapedArray(shape, dtype) for shape, dtype in like]


def _lowered(
    ctx: mlir.LoweringRuleContext, *flat: mlir.ir.Value, host: Callable, form: PyTreeDef, numbers: int, like: Shapes
) -> Sequence[mlir.ir.Value | Sequence[mlir.ir.Value]]:
    def called(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        found = host(jax.tree.unflatten(form, arrays[:numbers]), *arrays[numbers:])
        return tuple(found if isinstance(found, list) else [found])

    how = {"has_side_effect": False, "returns_token": False}
    return mlir.emit_python_callback(ctx, called, None, list(flat), ctx.avals_in, ctx.avals_out, **how)[0]  # pyright: ignore[reportArgumentType]


mlir.register_lowering(_network, _lowered)


def _rows(
    flat: Sequence[Array], axes: Sequence[int | None], *, numbers: int, like: Shapes, **how: object
) -> tuple[list[Array], list[int]]:
    count = next(a.shape[axis] for a, axis in zip(flat, axes, strict=True) if axis is not None)
    only_inputs = len(flat) == numbers + 1 and all(axis is None for axis in axes[:-1])  # outputs of one model
    if only_inputs and axes[-1] is not None:
        inputs = jnp.moveaxis(flat[-1], axes[-1], 0)
        ((shape, dtype),) = like
        merged = inputs.reshape(-1, *inputs.shape[2:])
        wider = (((merged.shape[0], *shape[1:]), dtype),)
        (found,) = _network.bind(*flat[:-1], merged, numbers=numbers, like=wider, **how)
        return [found.reshape(count, *shape)], [0]
    rows = [
        _network.bind(*(a if axis is None else jnp.take(a, k, axis) for a, axis in zip(flat, axes, strict=True)),
                      numbers=numbers, like=like, **how)
        for k in range(count)
    ]  # fmt: skip
    return [jnp.stack(column) for column in zip(*rows, strict=True)], [0] * len(rows[0])


batching.primitive_batchers[_network] = _rows
