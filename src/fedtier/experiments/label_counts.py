"""Who has how many rows of which class: the numbers behind the partition picture, stored with every run."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from ..datasets import Dataset
from ..federation import Federation
from .assemble import Experiment, client_names, federate, load_data
from .config import Config


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

    def to_json(self) -> bytes:
        return json.dumps(self.as_object()).encode()

    def as_object(self) -> dict[str, Any]:
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in self._asdict().items()}

    @classmethod
    def from_object(cls, content: dict[str, Any]) -> LabelCounts:
        tables = {key: np.asarray(content[key]) for key in ("clients", "held", "server", "test")}
        return cls(content["title"], content["seed"], tuple(content["labels"]), tuple(content["names"]), **tables)


def count_labels(config: Config) -> LabelCounts:
    """The counts of run.seed's partition; loads the data, builds no model."""
    dataset = load_data(config)
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
        "quantity": f"amounts by Dirichlet, alpha = {data.alpha:g}",
        "natural": "natural owners",
    }
    return f"{data.name}, {drawn[data.partition]}"


def _count(config: Config, dataset: Dataset, federation: Federation) -> LabelCounts:
    index, classes = np.asarray(federation.index), max(dataset.classes, int(dataset.labels.max()) + 1)

    def counts(start: Any, size: Any) -> np.ndarray:
        return np.bincount(dataset.labels[index[int(start) : int(start) + int(size)]], minlength=classes)

    held = np.asarray(federation.held.size)
    sizes = np.asarray(federation.train.size) + held  # a client's held-back rows follow its training rows
    first, m = int(np.asarray(federation.train.start)[0]), len(sizes)  # the clients' windows follow each other
    label = dataset.labels[index[first : first + int(sizes.sum())]]
    cells = np.repeat(np.arange(m), sizes) * classes + label
    clients = np.bincount(cells, minlength=m * classes).reshape(m, classes)
    labels = tuple(str(name) for name in dataset.label_names) or tuple(str(k) for k in range(classes))
    names = client_names(config, dataset, m)
    server, test = counts(*federation.server), counts(*federation.test)
    return LabelCounts(title(config), config.run.seed, labels, names, clients, held, server, test)
