"""ft.federate: rows of any source, dealt to a server, clients and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import NAMES, Dataset
from ..datasets.frames import is_frame
from ..errors import FedtierError, nearest, require
from ..experiments.config import validate
from ..experiments.label_counts import LabelCounts, count_labels
from ..experiments.tables import Config
from ..own_code.data import as_dataset, raw_dataset
from ..own_code.held import Held
from ..own_code.naming import is_path
from ..reports.layout import plain
from ..reports.terminal import label_counts_table
from .words import as_arguments, given


@dataclass(frozen=True, repr=False)
class Federated:
    """Rows and who has them: what `ft.train` and `ft.compare` take. Prints who has how many rows of which class."""

    table: dict[str, Any]  # the [data] table that stands for it
    seed: int = 0

    @property
    def config(self) -> Config:
        """The configuration with this data and everything else by default."""
        return validate({"data": self.table, "run": {"seed": self.seed}})

    @cached_property
    def counts(self) -> LabelCounts:
        """Rows by client and class, with the names of the clients."""
        with as_arguments():
            return count_labels(self.config)

    @property
    def clients(self) -> tuple[str, ...]:
        """The names of the clients; numbers where they have none."""
        return self.counts.names

    def plot(self) -> Any:
        """Who has how many rows of which class, as a figure of matplotlib."""
        from ..reports.plots import partition_figure

        return partition_figure(self.counts)

    def __repr__(self) -> str:
        return plain([*self.counts.said, *label_counts_table(self.counts)]).rstrip()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def federate(
    source: Any,
    *,
    label: Any = None,
    owner: Any = None,
    server_share: float | None = None,
    test_share: float | None = None,
    client_test_share: float | None = None,
    partition: str | None = None,
    clients: int | None = None,
    alpha: float | None = None,
    as_is: bool = False,
    seed: int = 0,
    **options: Any,
) -> Federated:
    """Rows dealt to a server, clients and test rows.

    source        a DataFrame of pandas or polars, an Arrow table, a dict of columns; (inputs, labels) or an array `inputs` with
                  label=labels; the name of a data set, such as "digits"; a file; or a function of your own, "mine.py:load"
    label, owner  columns of a table, or arrays beside `inputs`: what is predicted, and whose row it is. With owners the clients
                  are natural; without, `partition` ("dirichlet", "iid", "classes", "quantity") deals the rows to `clients`
    as_is         arrays stay as they are, nothing is scaled and labels are not looked at: for problems of your own
    server_share  the server's part of the rows that are no test rows; seed draws all splits, and is the first of a run's
    options       further keys of [data]: drop, keep, categories, missing, task, weight, rows, features, ...
    """
    keys = {
        "server_share": server_share, "test_share": test_share, "client_test_share": client_test_share, "partition": partition,
        "clients": clients, "alpha": alpha, **options,
    }  # fmt: skip
    found = Federated(_source(source, label, owner, as_is) | given(keys), seed)
    _ = found.counts  # reads and splits the rows once: what is wrong is refused here
    return found


def _source(source: Any, label: Any, owner: Any, as_is: bool) -> dict[str, Any]:
    """The keys of [data] that name the rows."""
    named = {key: value for key, value in (("label", label), ("owner", owner)) if value is not None}
    if isinstance(source, Dataset | tuple | list | np.ndarray):
        return _arrays(source, label, owner, as_is)
    require(not as_is, "as_is", as_is, "is for arrays: a table is always prepared", "(inputs, labels)")
    for key, value in named.items():
        require(isinstance(value, str), key, type(value).__name__, "must be the name of a column of the table")
    if is_frame(source):
        return {"file": Held(type(source).__name__, source)} | named
    if callable(source):
        return {"name": Held(getattr(source, "__name__", "load"), source)} | named
    require(isinstance(source, str | Path), "source", type(source).__name__, "is no table", "a frame, arrays, a name or a file")
    text = str(source)
    if text in NAMES or is_path(text):
        return {"name": text} | named
    if not Path(text).expanduser().exists() and not Path(text).suffix:
        raise FedtierError("source", text, "is neither a data set nor a file", nearest(text, NAMES))
    return {"file": text} | named


def _arrays(source: Any, label: Any, owner: Any, as_is: bool) -> dict[str, Any]:
    natural = {} if owner is None else {"partition": "natural"}
    if isinstance(source, Dataset):
        require(label is None and owner is None, "label", label, "a Dataset has its labels and owners", "leave it out")
        return {"name": Held(source.name, lambda: source)} | ({} if source.owner is None else {"partition": "natural"})
    parts: Sequence[Any] = source if isinstance(source, tuple | list) else (source,)
    columns = [*parts, *(one for one in (label, owner) if one is not None)]
    rule = "must be inputs and labels, with or without owners"
    require(len(columns) in (2, 3), "source", f"{len(columns)} arrays", rule, "ft.federate((inputs, labels), owner=owners)")
    if len(parts) == 3:
        natural = {"partition": "natural"}
    held = tuple(np.asarray(one) for one in columns)

    def arrays() -> Dataset:
        return raw_dataset(held, "arrays") if as_is else as_dataset(held, {}, "arrays")

    return {"name": Held("arrays", arrays)} | natural
