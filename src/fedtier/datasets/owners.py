"""Natural clients as they come: owners who have too few rows are refused, left out, or put together, by name."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import FedtierError, choice, whole
from .dataset import Dataset

Rule = Literal["refuse", "drop", "merge"]
RULES = ("refuse", "drop", "merge")
MERGED = "others"


def with_enough_rows(dataset: Dataset, least: int, rule: Rule = "refuse") -> Dataset:
    """The set without owners of fewer than `least` rows: refused by name, left out with their rows, or merged into one."""
    whole("min_rows", least)
    choice("small_clients", rule, RULES)
    assert dataset.owner is not None
    counts = np.bincount(dataset.owner, minlength=dataset.clients)
    small = np.flatnonzero(counts < least)
    if not len(small):
        return dataset
    names = dataset.owner_names or tuple(map(str, range(dataset.clients)))
    told = ", ".join(f"{names[k]} ({counts[k]})" for k in small[:5]) + (f" and {len(small) - 5} more" if len(small) > 5 else "")
    owners = f"{len(small)} owner{'s' * (len(small) > 1)} of fewer than {least} row{'s' * (least > 1)}: {told}"
    few = np.isin(dataset.owner, small)
    if rule == "refuse" or (rule == "drop" and few.all()) or (rule == "merge" and few.sum() < least):
        rule_told = {"refuse": "there are", "drop": "nobody is left without the", "merge": "even together too small are the"}[
            rule
        ]
        hint = 'small_clients = "drop" leaves them out, "merge" makes one client of them; or lower min_rows'
        raise FedtierError("small_clients", rule, f"{rule_told} {owners}", hint)
    if rule == "drop":
        return _renumbered(dataset.take(np.flatnonzero(~few)), names)._replace(notes=(*dataset.notes, f"left out: {owners}"))
    merged = next(name for name in (MERGED, *(f"{MERGED} ({n})" for n in range(2, len(names) + 3))) if name not in names)
    together = np.where(few, len(names), dataset.owner).astype(np.int32)
    return _renumbered(dataset._replace(owner=together), (*names, merged))._replace(
        notes=(*dataset.notes, f"together they are the client {merged!r}: {owners}")
    )


def _renumbered(dataset: Dataset, names: tuple[str, ...]) -> Dataset:
    """Owners from 0 on without gaps."""
    used, codes = np.unique(dataset.owner, return_inverse=True)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return dataset._replace(owner=codes.reshape(-1).astype(np.int32), owner_names=tuple(names[k] for k in used))
