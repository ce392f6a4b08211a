"""The data of a configuration: loaded, split, and prepared on the training rows of each seed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import datasets as data_sets
from ..datasets import Dataset
from ..datasets.owners import with_enough_rows
from ..errors import FedtierError, called, require
from ..federation import Federation, Spared, Window, build, count_of, partition
from .config import Config, Data, keys_of
from .held import value_of
from .own_code import is_own
from .own_data import own_data


def load_data(config: Config) -> Dataset:
    """The data set that [data] names. What has to be fitted, medians and deviations of a table for example, is fitted to
    each seed's own training rows: neither test rows nor rows that a client holds back have a say in it."""
    dataset = load_raw(config)
    if dataset.raw is None and dataset.weights is None:
        return dataset
    return dataset.prepared([training_rows(config, dataset, seed) for seed in seeds_of(config)])


def load_raw(config: Config) -> Dataset:
    """The data set as it comes, owners who have too few rows settled."""
    data = config.data
    options = {key: value_of(f"data.{key}", getattr(data, key)) for key in data.takes if hasattr(data, key)}
    dataset = own_data(data.name, options) if is_own(data.name) else data_sets.load(data.name, **options)
    if data.partition == "natural":
        _owner(dataset)
        return with_enough_rows(dataset, data.min_rows or _least(data), data.small_clients)
    if dataset.owner is not None and "partition" not in data.model_fields_set:
        rule = f"holds {dataset.clients} owners, and no partition is named"
        raise FedtierError("data.file", data.file, rule, 'partition = "natural" for these clients, "iid" for others')
    return dataset


def seeds_of(config: Config) -> list[int]:
    return [config.run.seed + s for s in range(config.run.seeds)]


def training_rows(config: Config, dataset: Dataset, seed: int) -> np.ndarray:
    """The rows that the server and the clients learn from under this seed."""
    federation = split(config, dataset, dataset.labels[: dataset.rows], np.random.default_rng([seed, 0]))
    index = np.asarray(federation.index)
    windows = [federation.server, *(Window(*pair) for pair in zip(*map(np.asarray, federation.train), strict=True))]
    return np.concatenate([index[int(start) : int(start) + int(size)] for start, size in windows])


def clients_of(config: Config, dataset: Dataset) -> int:
    return dataset.clients if config.data.partition == "natural" else config.data.clients


def client_names(config: Config, dataset: Dataset, clients: int) -> tuple[str, ...]:
    """[m] the owners' names where clients are natural, the sites' on the wire, else numbers."""
    owned = (config.data.partition == "natural" or dataset.owner is None) and len(dataset.owner_names) == clients
    return tuple(map(str, dataset.owner_names if owned else range(clients)))


@called(keys_of("data") | {"per_client": "data.classes_per_client"})
def split(config: Config, dataset: Dataset, arrays: PyTree, rng: np.random.Generator) -> Federation:
    """Who has which of the N rows: test, server, clients."""
    data, strata, least = config.data, dataset.strata, _least(config.data)
    clients, natural = clients_of(config, dataset), data.partition == "natural"
    draws = {
        "dirichlet": lambda: partition.dirichlet(strata, clients, data.alpha, least=least),
        "iid": lambda: partition.iid(clients, least=least),
        "classes": lambda: partition.classes(strata, clients, data.classes_per_client, least=least),
        "quantity": lambda: partition.quantity(clients, data.alpha, least=least),
        "natural": lambda: partition.natural(_owner(dataset), least=least),
    }
    federation = build(
        arrays, draws[data.partition](), clients=clients, rng=rng, server_share=data.server_share,
        test_share=data.test_share, client_test_share=data.client_test_share,
        test_rng=None if data.test_seed is None else np.random.default_rng([data.test_seed, 2]),
        spared=Spared(_owner(dataset), least) if natural else None, strata=strata if natural else None,
    )  # fmt: skip
    if data.validation_share:
        federation = _validation(federation, data.validation_share)
    for name, window in (("data.test_share", federation.test), ("data.server_share", federation.server)):
        given = getattr(data, name[5:])
        require(int(window.size) > 0 or given == 0, name, given, f"leaves no row of {dataset.rows}", "raise it")
    return federation


def _least(data: Data) -> int:
    return 2 if data.client_test_share else 1


def _validation(federation: Federation, share: float) -> Federation:
    """Rows to choose settings by, from training rows alone: the first of the server's window take the place of the test rows,
    the last of each client's training rows that of its held-back rows. Nobody sees the real ones."""
    start, size = federation.server
    held = jnp.asarray(count_of(share, size), size.dtype)
    first, rows = federation.train
    apart = jnp.minimum(jnp.maximum(1, jnp.asarray(count_of(share, rows), rows.dtype)), rows - 1)
    return federation._replace(
        test=Window(start, held), server=Window(start + held, size - held),
        train=Window(first, rows - apart), held=Window(first + rows - apart, apart),
    )  # fmt: skip


def _owner(dataset: Dataset) -> np.ndarray:
    if dataset.owner is None:
        rule = f"{dataset.name} has no owner column"
        raise FedtierError("data.partition", "natural", rule, "name it in data.owner, or use dirichlet")
    return dataset.owner
