"""Who has how many rows of which class: the numbers behind the partition picture, stored with every run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, SupportsInt

import jax
import numpy as np
from jaxtyping import Int

from ..datasets import Dataset
from ..datasets.table import Table
from ..federation import Federation
from ..methods import registry
from ..problem import BORDER
from ..storage.json_value import Json, as_list, as_text, as_whole
from .assemble import Experiment, federate
from .data import client_names, load_raw, new_names
from .solving import check_images
from .tables import Config

MOST_NAMED = 5  # new clients in the sentence on what was loaded
SMALL = 5  # an image whose side is less than so many times the largest shift is small for it
WITHOUT_ROWS = (
    ": f1 = 0, and what is left is least where clients do not move, which need not be a good global model; "
    "fedavg and scaffold need no rows there"
)


class LabelCounts(NamedTuple):
    """Counts of rows; K classes, m clients."""

    title: str  # data set and partition, in words
    seed: int
    labels: tuple[str, ...]  # [K] names of the classes
    names: tuple[str, ...]  # [m] of the clients
    clients: Int[np.ndarray, "m K"]  # training and held-back rows of each client
    held: Int[np.ndarray, "m"]  # how many of them are held back for the client's own test
    server: Int[np.ndarray, "K"]
    test: Int[np.ndarray, "K"]  # the global test rows
    said: tuple[str, ...] = ()  # what was loaded, a sentence a line

    def to_json(self) -> bytes:
        return json.dumps(self.as_object()).encode()

    def as_object(self) -> dict[str, Json]:
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in self._asdict().items()}

    @classmethod
    def from_object(cls, content: Mapping[str, Json]) -> LabelCounts:
        clients, held, server, test = (np.asarray(content[key]) for key in ("clients", "held", "server", "test"))
        labels, names, said = (tuple(map(as_text, as_list(content[key]))) for key in ("labels", "names", "said"))
        return cls(as_text(content["title"]), as_whole(content["seed"]), labels, names, clients, held, server, test, said)


def count_labels(config: Config) -> LabelCounts:
    """The counts of run.seed's partition; loads the data, builds no model."""
    dataset = load_raw(config)
    return _count(config, dataset, federate(config, dataset, config.run.seed))


def labels_of_experiment(experiment: Experiment) -> LabelCounts:
    """The counts of the first seed."""
    rows = jax.tree.map(np.asarray, experiment.federation._replace(arrays=()))
    first = rows._replace(
        index=rows.index[0],
        test=type(rows.test)(*(a[0] for a in rows.test)),
        server=type(rows.server)(*(a[0] for a in rows.server)),
        train=type(rows.train)(*(a[0, : experiment.clients] for a in rows.train)),
        held=type(rows.held)(*(a[0, : experiment.clients] for a in rows.held)),
    )
    return _count(experiment.config, experiment.dataset, first)


def title(config: Config) -> str:
    data = config.data
    drawn = {
        "dirichlet": f"Dirichlet, alpha = {data.alpha:g}",
        "iid": "equal shares",
        "classes": f"{data.classes_per_client} shards of one class each",
        "labels": f"{data.classes_per_client} of the classes each",
        "pathological": f"{data.classes_per_client} of the classes each, in unequal parts",
        "quantity": f"amounts by Dirichlet, alpha = {data.alpha:g}",
        "natural": "natural owners",
    }
    return f"{data.title}, {drawn[data.partition]}"


def _count(config: Config, dataset: Dataset, federation: Federation) -> LabelCounts:
    index, strata = np.asarray(federation.index), dataset.strata
    classes = max(len(dataset.strata_names), int(strata.max()) + 1)

    def counts(start: SupportsInt, size: SupportsInt) -> np.ndarray:
        return np.bincount(strata[index[int(start) : int(start) + int(size)]], minlength=classes)

    held = np.asarray(federation.held.size)
    sizes = np.asarray(federation.train.size) + held  # a client's held-back rows follow its training rows
    starts, m = np.asarray(federation.train.start), len(sizes)
    places = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
    label = strata[index[places]]
    cells = np.repeat(np.arange(m), sizes) * classes + label
    clients = np.bincount(cells, minlength=m * classes).reshape(m, classes)
    labels = tuple(map(str, dataset.strata_names)) or tuple(str(k) for k in range(classes))
    names = client_names(config, dataset, m)
    server, test = counts(*federation.server), counts(*federation.test)
    said = describe(
        config, dataset, dict(zip(names, clients.sum(axis=1).tolist(), strict=True)), int(server.sum()), int(test.sum())
    )
    return LabelCounts(title(config), config.run.seed, labels, names, clients, held, server, test, said)


def describe(config: Config, dataset: Dataset, rows: dict[str, int], server: int, test: int) -> tuple[str, ...]:
    """What was loaded in one line, then what reading it decided; `rows` of each client by name."""
    data, least = config.data, min(rows, key=lambda name: rows[name])
    what = "regression" if dataset.task == "regression" else "binary" if dataset.classes == 2 else f"{dataset.classes} classes"
    kind = "natural clients" if data.partition == "natural" else f"clients ({title(config).rpartition(', ')[2]})"
    parts = [
        f"{data.title}: {dataset.rows:,} rows", _columns(dataset), f"label {dataset.label}: {what}",
        f"{len(rows):,} {kind}, the smallest {least} with {rows[least]:,} rows", _new(config, dataset),
        f"{server:,} rows at the server", f"{test:,} {'validation' if data.validation_share else 'test'} rows",
    ]  # fmt: skip
    lines = ["; ".join(part for part in parts if part), *dataset.notes, *_augmented(config, dataset)]
    method = registry.sketch(config.method.entry, config.method.options)
    if not data.central:
        lines.append("no rows at the server" + (WITHOUT_ROWS if method.needs_server_data else ""))
    elif server < method.shows:
        asked = f"the server has fewer than the {method.shows:,} rows that it is to show"
        lines.append(f"{asked}: {server:,} are shown, the other places travel empty")
    return tuple(lines)


def _augmented(config: Config, dataset: Dataset) -> list[str]:
    if not config.data.augment:
        return []
    shape = _shape(dataset)
    check_images(shape)
    side = min(shape[1:])
    much = f": {BORDER} of {side} pixels is much, compare with data.augment = false" if side < SMALL * BORDER else ""
    return [f"training sees images shifted by up to {BORDER} pixels, half of them mirrored{much}"]


def _new(config: Config, dataset: Dataset) -> str:
    names = new_names(config, dataset)
    more = ", ..." if len(names) > MOST_NAMED else ""
    return f"{len(names):,} new clients that never train ({', '.join(names[:MOST_NAMED])}{more})" if names else ""


def _columns(dataset: Dataset) -> str:
    if dataset.raw is not None and isinstance(dataset.raw.rows, Table):
        return f"{len(dataset.raw.rows.columns)} columns"
    needs = dataset.preparations[0].needs if dataset.preparations else ()
    if needs:
        return f"{len(needs)} columns as {dataset.shape[0]} inputs"
    return f"inputs {' x '.join(map(str, _shape(dataset)))}"


def _shape(dataset: Dataset) -> tuple[int, ...]:
    """Of one row, prepared or not."""
    if dataset.raw is None:
        return dataset.shape
    rows = dataset.raw.rows
    return (len(rows.columns),) if isinstance(rows, Table) else rows.shape[1:]
