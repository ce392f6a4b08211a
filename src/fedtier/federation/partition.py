"""Who owns which row. A partition draws one owner per row; a natural one reads it from a column.

Every function returns `assign(rng, rows) -> owner [len(rows)]` for `shards.build`. Draws that leave a client with
fewer than `least` rows are repeated; when that cannot work the error says what to change. Never a hang, never an
empty client.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import FedtierError, positive, require, whole

Assign = Callable[[np.random.Generator, np.ndarray], np.ndarray]
ATTEMPTS = 200


def iid(clients: int, *, least: int = 1) -> Assign:
    """Equal shares of shuffled rows."""

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        return rng.permutation(np.arange(len(rows)) % clients)

    return _redrawn(draw, clients, least, "use fewer clients or more rows")


def dirichlet(labels: np.ndarray, clients: int, alpha: float, *, least: int = 1) -> Assign:
    """The rows of each class are spread by a draw of Dirichlet(alpha): the smaller alpha, the fewer classes a client has.

    Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni, "Bayesian Nonparametric Federated Learning of Neural Networks",
    ICML 2019; Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos", ICDE 2022. (Hsu, Qi, Brown, 2019, draw the mix
    of classes of each client instead.)
    """
    positive("alpha", alpha, "0.1 gives a client few classes, 1000 nearly equal shares")

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        owner = np.empty(len(rows), int)
        for label in np.unique(labels[rows]):
            members = rng.permutation(np.flatnonzero(labels[rows] == label))
            cuts = np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(members)
            owner[members] = np.searchsorted(cuts, np.arange(len(members)), side="right")
        return owner

    return _redrawn(draw, clients, least, "raise alpha, use fewer clients, or hold back fewer rows for their tests")


def classes(labels: np.ndarray, clients: int, per_client: int, *, least: int = 1) -> Assign:
    """Shards of few classes: rows sorted by label, cut into clients x per_client shards, `per_client` shards each.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017.
    """
    whole("per_client", per_client)

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        order = np.lexsort((rng.random(len(rows)), labels[rows]))
        shards = np.array_split(order, clients * per_client)
        owner = np.empty(len(rows), int)
        for position, shard in enumerate(rng.permutation(len(shards))):
            owner[shards[shard]] = position % clients
        return owner

    return _redrawn(draw, clients, least, "use fewer clients or fewer classes per client")


def quantity(clients: int, alpha: float, *, least: int = 1) -> Assign:
    """The same mix of classes for all, but amounts drawn from Dirichlet(alpha)."""
    positive("alpha", alpha)

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        cuts = np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(rows)
        return rng.permutation(np.searchsorted(cuts, np.arange(len(rows)), side="right"))

    return _redrawn(draw, clients, least, "raise alpha or use fewer clients")


def natural(owner: np.ndarray, *, least: int = 1) -> Assign:
    """The owner column as it is: hospitals, devices, writers. Nothing is drawn, so a client without rows is an error."""
    owner = np.asarray(owner)
    numbered = owner.ndim == 1 and np.issubdtype(owner.dtype, np.integer) and bool(np.all(owner >= 0))
    require(numbered, "owner", owner, "must hold one client number from 0 on for each row", "numpy.unique numbers names")
    clients = int(owner.max()) + 1 if len(owner) else 0
    hint = "leave fewer rows to the server or the test, or drop the clients with few rows"
    return _redrawn(lambda rng, rows: owner[rows], clients, least, hint, attempts=1)


def _redrawn(draw: Assign, clients: int, least: int, hint: str, attempts: int = ATTEMPTS) -> Assign:
    whole("clients", clients)

    def assign(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        possible = len(rows) >= clients * least
        require(possible, "clients", clients, f"{len(rows)} rows cannot give every client {least}", hint)
        for _ in range(attempts):
            owner = draw(rng, rows)
            counts = np.bincount(owner, minlength=clients)
            if counts.min() >= least:
                return owner
        poorest = int(counts.argmin())
        rule = f"client {poorest} has {counts[poorest]} rows, needs {least}, after {attempts} draw{'s' * (attempts > 1)}"
        raise FedtierError("clients", clients, rule, hint)

    return assign
