"""The clients of runs by name: how well each is served, and who is worst off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..experiments.metrics import FEWEST
from .load_runs import Curve

KINDS = ("personal", "shared", "rows")  # of a `Point`


class Client(NamedTuple):
    """One line: a client of one seed, or of all seeds where it is the same party in each."""

    name: str
    seed: int | None  # None: the mean over seeds
    number: int
    training: int | None  # rows, of the partition's first seed
    tested: float | None  # test rows, on average over the seeds
    personal: dict[str, float]  # by method: accuracy in per cent, or the error of a regression
    shared: dict[str, float]  # likewise of the global model
    errors: bool = False  # these are errors: the larger, the worse

    def badness(self, method: str) -> float:
        """What grows as the personal model gets worse; the least of all where the method has none."""
        if method not in self.personal:
            return float("-inf")
        return self.personal[method] if self.errors else -self.personal[method]

    def told(self, method: str) -> str:
        """`is right on 61.0 % of its 24 test rows`, or how large its error is."""
        rows = "its test rows" if self.tested is None else f"its {self.tested:.0f} test rows"
        value = self.personal[method]
        return f"has an error (rmse) of {value:.4g} on {rows}" if self.errors else f"is right on {value:.1f} % of {rows}"


def clients_of(members: Sequence[Curve]) -> list[Client]:
    """All clients that were judged, in the order of their numbers."""
    keeps = all(curve.same_clients for curve in members)
    keys = sorted({(None if keeps else p.seed, p.client) for curve in members for p in curve.points}, key=_order)
    found: dict[tuple[int | None, int], dict[str, dict[str, list[float]]]] = {key: {} for key in keys}
    for curve in members:
        for point in curve.points:
            numbers = found[None if keeps else point.seed, point.client].setdefault(curve.method, {})
            for name in KINDS:
                if getattr(point, name) is not None:
                    numbers.setdefault(name, []).append(getattr(point, name))
    out = []
    for (seed, number), methods in found.items():
        curve = next(curve for curve in members if curve.points)
        each = {kind: {m: float(np.mean(n[kind])) for m, n in methods.items() if kind in n} for kind in KINDS}
        scale = 1.0 if curve.errors else 100.0
        personal, shared = ({m: scale * value for m, value in each[kind].items()} for kind in ("personal", "shared"))
        tested, training = next(iter(each["rows"].values()), None), _training(members, number, seed)
        out.append(Client(curve.client(number), seed, number, training, tested, personal, shared, curve.errors))
    return [client for client in out if client.personal or client.shared]


def worst_of(found: Sequence[Client], method: str) -> Client | None:
    """The client with the worst personal model, among those with enough test rows; None where none has."""
    judged = [client for client in found if method in client.personal and enough_rows(client)]
    return max(judged, key=lambda client: client.badness(method), default=None)


def enough_rows(client: Client) -> bool:
    """Whether it has the test rows to be called the worst, or the run does not say how many it has."""
    return client.tested is None or client.tested >= FEWEST


def _training(members: Sequence[Curve], number: int, seed: int | None) -> int | None:
    """Training rows from the counts of the partition, where these are of this seed or of all."""
    counts = next((curve.counts for curve in members if curve.counts is not None), None)
    if counts is None or number >= len(counts.held) or seed not in (None, counts.seed):
        return None
    return int(counts.clients[number].sum() - counts.held[number])


def _order(key: tuple[int | None, int]) -> tuple[int, int]:
    return -1 if key[0] is None else key[0], key[1]
