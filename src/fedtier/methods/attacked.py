"""A method some of whose clients attack it: simulations of what a federation must bear.

    labels    trains on rows whose class c is taken for C - 1 - c, and replies honestly
    signs     sends -scale times its reply
    large     sends scale times its reply
    noise     sends Gaussian noise, scale times as long as its reply in the mean, leaf by leaf

An attacker knows nothing of the others. Its reply is changed number by number, whatever it stands for in the method: models,
values of f2, control variates. Its own state stays the honest one. A client that makes no step has nothing to change.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Key, PyTree, Real

from .. import keys, trees
from ..errors import choice, positive, whole
from ..federation import View
from ..keys import Tag
from ..problem import Rows
from .method import Method, Turn

SCALES = {"labels": 1.0, "signs": 1.0, "large": 10.0, "noise": 10.0}
"""The attacks, each with the factor on the reply that is usual for it; none reads it for labels."""


class AttackSpec(NamedTuple):
    """The spec of clients some of whom attack."""

    weight: Real[ArrayLike, ""]
    radius: Real[ArrayLike, ""]
    step_scale: Real[ArrayLike, ""]
    attacks: Bool[Array, ""]  # does this client attack?


def attacked(method: Method, kind: str, *, scale: float | None = None, classes: int = 2) -> Method:
    """`method` with clients that attack where `spec.attacks` says so. `scale` None is the kind's own (SCALES), `classes` is C;
    to flip labels costs a copy of all labels for each client of the cohort and round."""
    choice("kind", kind, SCALES)
    times = SCALES[kind] if scale is None else scale
    positive("scale", times)
    whole("classes", classes)

    def local(client: PyTree, shared: PyTree, own: PyTree, view: View, spec: AttackSpec, turn: Turn) -> tuple[PyTree, PyTree]:
        if kind == "labels":
            return method.local(client, shared, own, _flipped(view, spec.attacks, classes), spec, turn)
        client, up = method.local(client, shared, own, view, spec, turn)
        return client, trees.where(spec.attacks, _changed(up, kind, times, keys.at(turn.key, Tag.ATTACK)), up)

    return method._replace(local=local)


def _flipped(view: View, attacks: Bool[Array, ""], classes: int) -> View:
    rows: Rows = view.arrays
    return view._replace(arrays=rows._replace(labels=jnp.where(attacks, classes - 1 - rows.labels, rows.labels)))


def _changed(up: PyTree, kind: str, scale: float, key: Key[Array, ""]) -> PyTree:
    """The reply as an attacker sends it; whole numbers and keys in it stay."""
    leaves, structure = jax.tree.flatten(up)

    def change(number: int, a: Array) -> Array:
        if not jnp.issubdtype(a.dtype, jnp.inexact):
            return a
        if kind == "noise":
            return scale * jnp.sqrt(jnp.mean(jnp.square(a))) * jax.random.normal(keys.at(key, number), a.shape, a.dtype)
        return (-scale if kind == "signs" else scale) * a

    return jax.tree.unflatten(structure, [change(number, leaf) for number, leaf in enumerate(leaves)])
