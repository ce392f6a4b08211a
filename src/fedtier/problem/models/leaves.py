"""A part of a model, its head for example: a rule over the names and places of its leaves.

    head       the last dense layer, weight and bias: the layer of the last matrix, or what is called `head`
    body       all but the head
    norm       normalisation layers: Equinox's, by their type, and what is called norm or bn
    a pattern  the leaves whose name fits it, with * and ?, for example "layers.0.*"

Names are those of `trees.names`, with the parts of a path between dots. A rule needs the model: it is asked when a method is
first traced.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from ... import trees
from ...errors import FedtierError, require

WORDS = ("head", "body", "norm")
CALLED_NORM = re.compile(r"(\w*_)?(batch|layer|group|rms|instance)?_?norm\d*|bn\d*", re.IGNORECASE)  # a part of a name


def check_rule(kept: Any) -> None:
    """Refuses what is no rule, before there is a model."""
    known = isinstance(kept, str) and bool(kept)
    require(known, "kept", kept, "must be head, body, norm or a pattern of names", 'for example "layers.1.*"')


def split(x: PyTree, kept: str) -> tuple[PyTree, PyTree]:
    """(the rest, the leaves that the rule keeps), each a tree like x with None for the others."""
    stays = jax.tree.unflatten(jax.tree.structure(x), marks(x, kept))
    part, rest = eqx.partition(x, stays)
    return rest, part


def join(rest: PyTree, part: PyTree) -> PyTree:
    """The model that `split` took apart."""
    return eqx.combine(rest, part)


def marks(x: PyTree, kept: str) -> list[bool]:
    """Whether the rule keeps it, for each leaf."""
    names = trees.names(x)
    if kept == "norm":
        return _norm(x, names)
    if kept in ("head", "body"):
        return [mark == (kept == "head") for mark in _head(x, names)]
    found = [fnmatchcase(name, kept) for name in names]
    if not any(found):
        raise FedtierError("kept", kept, "fits no leaf of this model", f"its leaves: {', '.join(names)}; or {', '.join(WORDS)}")
    return found


def _head(x: PyTree, names: list[str]) -> list[bool]:
    called = ["head" in name.split(".") for name in names]
    if any(called):
        return called
    paths = jax.tree_util.tree_leaves_with_path(x)
    if any(isinstance(step, jax.tree_util.DictKey) for path, _ in paths for step in path):
        rule = "is not known for a model whose parameters are a dict: its leaves are ordered by the alphabet"
        raise FedtierError("kept", "head", rule, f"a pattern of their names: {', '.join(names)}")
    matrices = [name for name, (_, leaf) in zip(names, paths, strict=True) if leaf.ndim >= 2]
    layer = _parent((matrices or names)[-1])
    return [_parent(name) == layer for name in names]


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _norm(x: PyTree, names: list[str]) -> list[bool]:
    def is_layer(node: object) -> bool:
        return isinstance(node, eqx.Module) and type(node).__name__.endswith("Norm")

    by_type = [is_layer(node) for node in jax.tree.leaves(x, is_leaf=is_layer) for _ in jax.tree.leaves(node)]
    by_name = [any(CALLED_NORM.fullmatch(part) for part in name.split(".")) for name in names]
    return [one or other for one, other in zip(by_type, by_name, strict=True)]
