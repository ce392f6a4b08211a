"""Partial models at their ends: where nothing of a model is kept at the clients, or all of it."""

from __future__ import annotations

import warnings

from jaxtyping import PyTree

from ...errors import FedtierWarning
from ...problem.models.leaves import marks


def tell_ends(method: str, x: PyTree, kept: str) -> None:
    """Warns where the rule keeps nothing of this model, or all of it: the method then is another one."""
    found = marks(x, kept)
    ends = {0: ("no", "fedavg"), len(found): ("every", "local_only")}
    if sum(found) in ends:
        which, other = ends[sum(found)]
        words = f"{method} keeps {which} leaf of this model at the clients (kept = {kept!r}), so that it is {other}"
        warnings.warn(words, FedtierWarning, stacklevel=2)
