"""Messages and states as named arrays: bytes that no program runs, readable in any language.

The container is safetensors. Structure, shapes and types come from the method (`like`), never from the bytes: what
does not fit exactly is refused, so decoding allocates no more than the caller expects.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from .. import trees
from ..errors import NOTHING, FedtierError
from .files import write_whole


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """One named NumPy array per leaf; a random key becomes its two words, bfloat16 and the like their bits."""
    return dict(zip(_names(tree), [_plain(leaf) for leaf in jax.tree.leaves(tree)], strict=True))


def named_leaves(tree: PyTree) -> dict[str, Any]:
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


def save(path: Path, tree: PyTree, words: dict[str, str]) -> None:
    """The tree as a safetensors file with `words` in its header; the whole file or the old one."""
    contiguous = {name: np.array(a, order="C") for name, a in to_arrays(tree).items()}
    write_whole(path, safetensors.numpy.save(contiguous, metadata=words))


def load(path: Path, like: PyTree, format: str, hint: str, *, newer: tuple[str, ...] = ()) -> tuple[PyTree, dict[str, str]]:
    """(the tree shaped like `like`, the words of the header); refuses a file that is damaged or of another format.

    Arrays whose names begin with one of `newer` are those of `like` where the file, written before there were any, has none.
    """
    arrays, words = load_arrays(path, format, hint)
    since = {name: a for name, a in to_arrays(like).items() if name.startswith(newer)} if newer else {}
    if not since.keys() & arrays.keys():
        arrays = since | arrays
    return from_arrays(arrays, like, str(path)), words


def load_arrays(path: Path, format: str, hint: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(named arrays, the words of the header) of a file whose structure its words tell."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            words = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise FedtierError(str(path), NOTHING, "is not there", hint) from None
    except Exception as error:  # the parser raises many types
        raise FedtierError(str(path), NOTHING, f"is damaged: {error}", hint) from None
    if words.get("format") != format:
        raise FedtierError(str(path), words.get("format"), f"must be of format {format}", hint)
    return arrays, words


def size(tree: PyTree) -> int:
    """len(encode(tree)), from shapes alone; 0 for a tree without leaves, which is never sent."""
    shapes = [_shape(leaf) for leaf in jax.tree.leaves(tree)]
    return _size(tuple((name, s.shape, np.dtype(s.dtype)) for name, s in zip(_names(tree), shapes, strict=True)))


@functools.lru_cache(maxsize=256)  # every letter that is read is measured first
def _size(arrays: tuple[tuple[str, tuple[int, ...], np.dtype], ...]) -> int:
    return len(safetensors.numpy.save({name: np.zeros(shape, dtype) for name, shape, dtype in arrays})) if arrays else 0


def _names(tree: PyTree) -> list[str]:
    names = trees.names(tree)
    odd = sorted({name for name in names if names.count(name) > 1 or name == "__metadata__"})
    if odd:
        raise FedtierError("message", odd, "names two arrays, or none that can be stored", "rename the keys of the tree")
    return names


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_foreign(leaf: Any) -> bool:
    """Of a type that NumPy does not know by itself, hence no reader of safetensors in NumPy either."""
    return np.dtype(leaf.dtype).kind == "V"


def _plain(leaf: Any) -> np.ndarray:
    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.view(f"u{array.itemsize}") if _is_foreign(leaf) else array


def _restored(array: np.ndarray, leaf: Any) -> Any:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl="threefry2x32")
    return array.view(leaf.dtype) if _is_foreign(leaf) else array


def _shape(leaf: Any) -> Any:
    """The shape and type of `_plain(leaf)`, for arrays and for mere shapes."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, f"u{leaf.dtype.itemsize}") if _is_foreign(leaf) else leaf
