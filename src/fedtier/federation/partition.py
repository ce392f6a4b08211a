"""Who owns which row. A partition draws one owner per row; a natural one reads it from a column.

Every function returns `assign(rng, rows) -> owner [len(rows)]` for `dealing.build`. Draws that leave a client with
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


def dirichlet(labels: np.ndarray, clients: int, alpha: float, *, least: int = 1, balance: bool = False) -> Assign:
    """The rows of each class are spread by a draw of Dirichlet(alpha): the smaller alpha, the fewer classes a client has.
    With `balance` a client that has its N/m rows gets none of the classes that follow, as in the code of the second paper.

    Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni, "Bayesian Nonparametric Federated Learning of Neural Networks",
    ICML 2019; Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos", ICDE 2022. (Hsu, Qi, Brown, 2019, draw the mix
    of classes of each client instead.)
    """
    positive("alpha", alpha, "0.1 gives a client few classes, 1000 nearly equal shares")

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        owner, counts = np.empty(len(rows), int), np.zeros(clients, int)
        for label in np.unique(labels[rows]):
            members = rng.permutation(np.flatnonzero(labels[rows] == label))
            shares = rng.dirichlet(np.full(clients, alpha))
            if balance:
                shares = _to_the_poor(shares, counts, len(rows))
            cuts = np.cumsum(shares)[:-1] * len(members)
            owner[members] = np.searchsorted(cuts, np.arange(len(members)), side="right")
            counts += np.bincount(owner[members], minlength=clients)
        return owner

    return _redrawn(draw, clients, least, "raise alpha, use fewer clients, or hold back fewer rows for their tests")


def _to_the_poor(shares: np.ndarray, counts: np.ndarray, rows: int) -> np.ndarray:
    """`shares` of the clients with fewer than their part of all `rows`, made to sum to 1."""
    kept = shares * (counts < rows / len(counts))
    if kept.sum() == 0:  # a draw of Dirichlet can give everything to those who have enough: then to all poor ones alike
        kept = (counts < rows / len(counts)).astype(float)
    return kept / kept.sum()


def labels_each(labels: np.ndarray, clients: int, per_client: int, *, least: int = 1) -> Assign:
    """NIID-Bench's "#C = c": client i has class i mod C and c - 1 others at random; owners of a class share it equally.

    Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos", ICDE 2022. Every class needs an owner, hence m >= C.
    """
    kinds = np.unique(labels)
    whole("per_client", per_client)
    require(per_client <= len(kinds), "per_client", per_client, f"there are only {len(kinds)} classes")
    require(clients >= len(kinds), "clients", clients, f"leaves some of {len(kinds)} classes to nobody", "use more clients")

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        has = np.zeros((clients, len(kinds)), bool)
        for i in range(clients):
            first = i % len(kinds)
            others = rng.choice(np.delete(np.arange(len(kinds)), first), per_client - 1, replace=False)
            has[i, [first, *others]] = True
        owner = np.empty(len(rows), int)
        for k, label in enumerate(kinds):
            members = rng.permutation(np.flatnonzero(labels[rows] == label))
            for i, part in zip(np.flatnonzero(has[:, k]), np.array_split(members, has[:, k].sum()), strict=True):
                owner[part] = i
        return owner

    return _redrawn(draw, clients, least, "use fewer clients or fewer classes per client")


def pathological(labels: np.ndarray, clients: int, per_client: int, *, least: int = 1) -> Assign:
    """PFLlib's pathological split: clients take turns class by class, `per_client` classes each, in unequal amounts.

    Class k goes to the first clients that still want classes, ceil(m c / C) of them: all but the last get a uniform draw from a
    tenth of an equal part to a whole one, the last gets the rest. Zhang et al., "PFLlib", 2023.
    """
    kinds = np.unique(labels)
    whole("per_client", per_client)

    def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        wants, owner = np.full(clients, per_client), np.zeros(len(rows), int)
        for label in kinds:
            members = rng.permutation(np.flatnonzero(labels[rows] == label))
            takers = np.flatnonzero(wants > 0)[: -(-clients * per_client // len(kinds))]
            require(
                len(takers) > 0, "per_client", per_client, f"leaves class {label} to nobody", "raise it, or use more clients"
            )
            equal = len(members) / len(takers)
            low = max(equal / 10, least / len(kinds))
            sizes = rng.integers(int(low), max(int(equal), int(low) + 1), len(takers) - 1)
            for client, part in zip(takers, np.split(members, np.cumsum(sizes)), strict=True):
                owner[part] = client
            wants[takers] -= 1
        return owner

    return _redrawn(draw, clients, least, "use fewer clients or fewer classes per client")


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
