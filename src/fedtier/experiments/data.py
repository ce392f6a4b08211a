"""The data of a configuration: loaded, split, and prepared on the training rows of each seed."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import datasets as data_sets
from ..datasets import Dataset
from ..datasets.owners import with_enough_rows
from ..errors import NOTHING, FedtierError, called, require
from ..federation import Federation, Spared, Window, build, count_of, of_parts, partition
from ..own_code.data import own_data
from ..own_code.held import value_of
from ..own_code.naming import is_own
from .tables import Config, Data, keys_of


def load_data(config: Config) -> Dataset:
    """The data set that [data] names. What has to be fitted, medians and deviations of a table for example, is fitted to
    each seed's own training rows: neither test rows nor rows that a client holds back have a say in it."""
    dataset = load_raw(config)
    if dataset.raw is None and dataset.weights is None:
        return dataset
    return dataset.prepared([training_rows(config, dataset, seed) for seed in seeds_of(config)])


@called(keys_of("data"))
def load_raw(config: Config) -> Dataset:
    """The data set as it comes, owners who have too few rows settled."""
    data = config.data
    options = {key: value_of(f"data.{key}", getattr(data, key)) for key in data.takes if hasattr(data, key)}
    dataset = own_data(data.name, options) if is_own(data.name) else data_sets.load(data.name, **options)
    dataset = _with_pixels(dataset, data)
    rule = f"{dataset.name} has no test set of its own"
    require(data.test == "drawn" or dataset.test_rows > 0, "data.test", data.test, rule, '"drawn"')
    if dataset.split is not None:
        return dataset
    if data.partition == "natural":
        _owner(dataset)
        return with_enough_rows(dataset, data.min_rows or _least(data), data.small_clients)
    if dataset.owner is not None and "partition" not in data.model_fields_set:
        rule = f"must be named, for {dataset.name} has {dataset.clients} owners"
        raise FedtierError("data.partition", NOTHING, rule, '"natural" for these clients, "iid" for others')
    return dataset


def _with_pixels(dataset: Dataset, data: Data) -> Dataset:
    """The data set with its pixels, 0 to 255, on the scale that data.pixels names."""
    if data.pixels == "standard":
        return dataset
    fits = dataset.inputs.dtype == np.uint8 and int(dataset.inputs.max()) > 127  # whole numbers of a smaller range are others'
    require(fits, "data.pixels", data.pixels, f"is for images with pixels from 0 to 255, not for {dataset.name}", '"standard"')
    shift, scale = {"unit": (0.0, 1 / 255), "signed": (127.5, 1 / 127.5)}[data.pixels]
    return dataset._replace(shift=np.float32(shift), scale=np.float32(scale))


def seeds_of(config: Config) -> list[int]:
    return [config.run.seed + s for s in range(config.run.seeds)]


def training_rows(config: Config, dataset: Dataset, seed: int) -> np.ndarray:
    """The rows that the server and the clients learn from under this seed."""
    federation = split(config, dataset, dataset.labels[: dataset.rows], np.random.default_rng([seed, 0]))
    index = np.asarray(federation.index)
    windows = [federation.server, *(Window(*pair) for pair in zip(*map(np.asarray, federation.train), strict=True))]
    return np.concatenate([index[int(start) : int(start) + int(size)] for start, size in windows])


class Newcomers(NamedTuple):
    """The windows of clients that never train, in the federation's index."""

    train: Window  # [k] rows from which a newcomer's model is made
    held: Window  # [k] rows that judge it


def all_clients_of(config: Config, dataset: Dataset) -> int:
    """How many clients there are, those that never train included."""
    return dataset.clients if config.data.partition == "natural" else config.data.clients


def clients_of(config: Config, dataset: Dataset) -> int:
    """m: how many clients train."""
    return all_clients_of(config, dataset) - len(new_clients(config, dataset))


def new_clients(config: Config, dataset: Dataset) -> np.ndarray:
    """The numbers of the clients that never train, ascending: the same for all seeds of a run."""
    share, total = config.data.new_clients, all_clients_of(config, dataset)
    count = count_of(share, total)
    fits = not share or 0 < count < total
    require(fits, "data.new_clients", share, f"is {count} of {total} clients: some must be new, and some must train")
    return np.sort(np.random.default_rng([config.run.seed, 3]).choice(total, count, replace=False))


def client_names(config: Config, dataset: Dataset, clients: int) -> tuple[str, ...]:
    """[m] the owners' names where clients are natural, the sites' on the wire, else numbers."""
    new = set(new_clients(config, dataset).tolist())
    names = _all_names(config, dataset, clients + len(new))
    return tuple(name for i, name in enumerate(names) if i not in new)


def new_names(config: Config, dataset: Dataset) -> tuple[str, ...]:
    """The names of the clients that never train."""
    names = _all_names(config, dataset, all_clients_of(config, dataset))
    return tuple(names[i] for i in new_clients(config, dataset))


def _all_names(config: Config, dataset: Dataset, total: int) -> tuple[str, ...]:
    owned = (config.data.partition == "natural" or dataset.owner is None) and len(dataset.owner_names) == total
    return tuple(map(str, dataset.owner_names if owned else range(total)))


def split(config: Config, dataset: Dataset, arrays: PyTree, rng: np.random.Generator) -> Federation:
    """Who has which of the N rows: test, server, clients."""
    return split_all(config, dataset, arrays, rng)[0]


@called(keys_of("data") | {"per_client": "data.classes_per_client"})
def split_all(
    config: Config, dataset: Dataset, arrays: PyTree, rng: np.random.Generator
) -> tuple[Federation, Newcomers | None]:
    """`split`, and the windows of the clients that never train; natural ones have no row in the test or at the server."""
    data, new = config.data, new_clients(config, dataset)
    if dataset.split is not None:
        federation = of_parts(arrays, **dataset.split._asdict())
        federation, newcomers = _apart(federation, new) if len(new) else (federation, None)
    elif data.partition == "natural" and len(new):
        federation, newcomers = _natural_with_new(config, dataset, arrays, rng, new)
    else:
        owner = _owner(dataset) if data.partition == "natural" else np.zeros(0, int)
        test = np.arange(dataset.rows - dataset.test_rows, dataset.rows) if data.test == "published" else None
        federation = _drawn(config, arrays, rng, dataset.strata, all_clients_of(config, dataset), owner, test)
        federation, newcomers = _apart(federation, new) if len(new) else (federation, None)
    if data.validation_share:
        federation = _validation(federation, data.validation_share)
        newcomers = newcomers and Newcomers(*_held_from_train(newcomers.train, data.validation_share))
    for name, window in (("data.test_share", federation.test), ("data.server_share", federation.server)):
        given = getattr(data, name[5:])
        require(int(window.size) > 0 or given == 0, name, given, f"leaves no row of {dataset.rows}", "raise it")
    return federation, newcomers


def _drawn(
    config: Config, arrays: PyTree, rng: np.random.Generator, strata: np.ndarray, clients: int, owner: np.ndarray,
    test: np.ndarray | None = None,
) -> Federation:  # fmt: skip
    data, natural, least = config.data, config.data.partition == "natural", _least(config.data)
    least = least if natural or data.min_rows is None else data.min_rows
    draws = {
        "dirichlet": lambda: partition.dirichlet(strata, clients, data.alpha, least=least, balance=data.balance),
        "labels": lambda: partition.labels_each(strata, clients, data.classes_per_client, least=least),
        "pathological": lambda: partition.pathological(strata, clients, data.classes_per_client, least=least),
        "iid": lambda: partition.iid(clients, least=least),
        "classes": lambda: partition.classes(strata, clients, data.classes_per_client, least=least),
        "quantity": lambda: partition.quantity(clients, data.alpha, least=least),
        "natural": lambda: partition.natural(owner, least=least),
    }
    return build(
        arrays, draws[data.partition](), clients=clients, rng=rng, server_share=data.server_share,
        test_share=data.test_share, client_test_share=data.client_test_share,
        test_rng=None if data.test_seed is None else np.random.default_rng([data.test_seed, 2]),
        spared=Spared(owner, least) if natural else None, strata=strata if natural else None, test=test,
    )  # fmt: skip


def _apart(federation: Federation, new: np.ndarray) -> tuple[Federation, Newcomers]:
    """Takes the clients `new` out of a federation of all; those who stay weigh 1 on average."""
    stay = np.setdiff1d(np.arange(federation.clients), new)
    train, held = (Window(*(a[stay] for a in window)) for window in (federation.train, federation.held))
    spec = jax.tree.map(lambda a: a[stay], federation.spec)
    spec = spec._replace(weight=spec.weight / jnp.mean(spec.weight))
    newcomers = Newcomers(*(Window(*(a[new] for a in window)) for window in (federation.train, federation.held)))
    return federation._replace(train=train, held=held, spec=spec), newcomers


def _natural_with_new(
    config: Config, dataset: Dataset, arrays: PyTree, rng: np.random.Generator, new: np.ndarray
) -> tuple[Federation, Newcomers]:
    """The federation of the other owners' rows, with the rows of each new owner behind them in the index."""
    owner = _owner(dataset)
    stay = np.flatnonzero(~np.isin(owner, new))
    _, renumbered = np.unique(owner[stay], return_inverse=True)
    known = jax.tree.map(lambda a: a[stay], arrays)
    federation = _drawn(config, known, rng, dataset.strata[stay], clients_of(config, dataset), renumbered)
    groups = [rng.permutation(np.flatnonzero(owner == i)) for i in new]
    sizes = np.asarray([len(group) for group in groups])
    start = len(stay) + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    whole = Window(jnp.asarray(start, jnp.int32), jnp.asarray(sizes, jnp.int32))
    held = np.minimum(count_of(config.data.client_test_share, sizes), sizes - 1)
    index = np.concatenate([stay[np.asarray(federation.index)], *groups])
    federation = federation._replace(arrays=jax.tree.map(jnp.asarray, arrays), index=jnp.asarray(index, jnp.int32))
    return federation, Newcomers(*_cut(whole, jnp.asarray(held, jnp.int32)))


def _cut(whole: Window, held: Array) -> tuple[Window, Window]:
    """The first rows of each window, and the last `held` ones."""
    return Window(whole.start, whole.size - held), Window(whole.start + whole.size - held, held)


def _held_from_train(train: Window, share: float) -> tuple[Window, Window]:
    """Rows to judge by from training rows alone: the last of them, at least one, never all."""
    apart = jnp.minimum(jnp.maximum(1, jnp.asarray(count_of(share, train.size), train.size.dtype)), train.size - 1)
    return _cut(train, apart)


def _least(data: Data) -> int:
    return 2 if data.client_test_share else 1


def _validation(federation: Federation, share: float) -> Federation:
    """Rows to choose settings by, from training rows alone: the first of the server's window take the place of the test rows,
    the last of each client's training rows that of its held-back rows. Where the server has no rows, the global model is judged
    on the validation rows of all clients together. Nobody sees the real ones."""
    start, size = federation.server
    held = jnp.asarray(count_of(share, size), size.dtype)
    train, apart = _held_from_train(federation.train, share)
    judged = federation._replace(test=Window(start, held), server=Window(start + held, size - held), train=train, held=apart)
    return judged if int(size) else _judged_on_clients(judged)


def _judged_on_clients(federation: Federation) -> Federation:
    """The held-back rows of all clients once more, as test rows, behind the index: as long for every seed."""
    index = np.asarray(federation.index)
    windows = zip(*map(np.asarray, federation.held), strict=True)
    together = np.concatenate([index[start : start + size] for start, size in windows])
    behind = np.pad(together, (0, len(index) - len(together)))
    kind = np.asarray(federation.test.start).dtype
    return federation._replace(
        index=np.concatenate([index, behind]), test=Window(kind.type(len(index)), kind.type(len(together)))
    )


def _owner(dataset: Dataset) -> np.ndarray:
    if dataset.owner is None:
        rule = f"{dataset.name} has no owner column"
        raise FedtierError("data.partition", "natural", rule, "name it in data.owner, or use dirichlet")
    return dataset.owner
