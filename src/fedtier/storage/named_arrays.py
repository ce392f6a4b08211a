"""Messages and states as named arrays: bytes that no program runs, readable in any language.

The container is safetensors. Structure, shapes and types come from the method (`like`), never from the bytes: what
does not fit exactly is refused, so decoding allocates no more than the caller expects.
"""

from __future__ import annotations

import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from jaxtyping import Array, PyTree

from .. import trees
from ..errors import FedtierError

Leaf = Array | np.ndarray | np.number | np.bool | jax.ShapeDtypeStruct  # an array, or the mere shape of one
TYPES = {  # what safetensors calls NumPy's, in the order in which it stores them
    "uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64", "float32": "F32", "uint32": "U32", "int32": "I32",
    "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """One named NumPy array per leaf; a random key becomes its two words, bfloat16 and the like their bits."""
    return dict(zip(_names(tree), [_plain(leaf) for leaf in jax.tree.leaves(tree)], strict=True))


def named_leaves(tree: PyTree) -> dict[str, Leaf]:
    """The leaves, arrays or mere shapes, by the names under which they are stored."""
    return dict(zip(_names(tree), jax.tree.leaves(tree), strict=True))


def from_arrays(arrays: dict[str, np.ndarray], like: PyTree, what: str = "message") -> PyTree:
    """The tree shaped like `like` from named arrays; refuses missing, extra or misshapen ones by name."""
    names = _names(like)
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))[:5]
        raise FedtierError(what, odd, "has arrays missing or too many", "it belongs to another method, model or version")
    leaves = []
    for name, leaf in zip(names, jax.tree.leaves(like), strict=True):
        wanted, found = _shape(leaf), arrays[name]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            rule = f"must be {wanted.dtype}{list(wanted.shape)}"
            raise FedtierError(f"{what}.{name}", f"{found.dtype}{list(found.shape)}", rule)
        leaves.append(_restored(found, leaf))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def encode(tree: PyTree) -> bytes:
    return safetensors.numpy.save({name: np.array(a, order="C") for name, a in to_arrays(tree).items()})


def decode(data: bytes, like: PyTree, what: str = "message") -> PyTree:
    """The inverse of `encode`; garbage, truncation and anything unlike `like` raise FedtierError."""
    limit = size(like)
    if len(data) > limit + 1024:
        raise FedtierError(what, f"{len(data)} bytes", f"must be about {limit} bytes")
    try:
        arrays = safetensors.numpy.load(data)
    except Exception as error:  # the parser raises many types; whatever it dislikes is not a message
        raise FedtierError(what, f"{len(data)} bytes", f"is not a message: {error}") from None
    return from_arrays(arrays, like, what)


def size(tree: PyTree) -> int:
    """len(encode(tree)), from shapes alone; 0 for a tree without leaves, which is never sent."""
    shapes = [_shape(leaf) for leaf in jax.tree.leaves(tree)]
    return _size(tuple((name, s.shape, np.dtype(s.dtype)) for name, s in zip(_names(tree), shapes, strict=True)))


@functools.lru_cache(maxsize=256)  # every letter that is read is measured first
def _size(arrays: tuple[tuple[str, tuple[int, ...], np.dtype], ...]) -> int:
    """The header as safetensors writes it, wide types first and then by name, padded to 8 bytes; nothing of the arrays' size is
    made."""
    if not arrays:
        return 0
    header, end = {}, 0
    for name, shape, dtype in sorted(arrays, key=lambda one: (_place(one[2]), one[0].encode())):
        start, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": TYPES[dtype.name], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return 8 + len(text) + -len(text) % 8 + end


def _place(dtype: np.dtype) -> int:
    if dtype.name not in TYPES:
        raise FedtierError("message", dtype.name, "is no type that can be stored", f"known: {', '.join(TYPES)}")
    return [*TYPES].index(dtype.name)


def _names(tree: PyTree) -> list[str]:
    names = trees.names(tree)
    odd = sorted({name for name in names if names.count(name) > 1 or name == "__metadata__"})
    if odd:
        raise FedtierError("message", odd, "names two arrays, or none that can be stored", "rename the keys of the tree")
    return names


def _is_key(leaf: Leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_foreign(leaf: Leaf) -> bool:
    """Of a type that NumPy does not know by itself, hence no reader of safetensors in NumPy either."""
    return np.dtype(leaf.dtype).kind == "V"


def _plain(leaf: Array | np.ndarray | np.number | np.bool) -> np.ndarray:
    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.view(f"u{array.itemsize}") if _is_foreign(leaf) else array


def _restored(array: np.ndarray, leaf: Leaf) -> Array | np.ndarray:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl="threefry2x32")
    return array.view(leaf.dtype) if _is_foreign(leaf) else array


def _shape(leaf: Leaf) -> Leaf:
    """The shape and type of `_plain(leaf)`, for arrays and for mere shapes."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, f"u{leaf.dtype.itemsize}") if _is_foreign(leaf) else leaf
