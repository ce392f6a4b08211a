"""What the server of a method with a buffer knows between two answers: who works on which broadcast, what the buffer holds, and
in which order answers have come. A part of the ledger, and with it of the checkpoint.

The order is a plan: who was in the buffer at each step, after how many local steps, how stale. A simulation that plays it makes
the same steps (`docs/asynchrony.md`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from .. import trees
from ..federation import Plan

NO_TASK = -1


class Seats(NamedTuple):
    """The buffer, in the order in which answers came; rows from `Arrivals.filled` on mean nothing."""

    client: Int[np.ndarray, "B"]
    began: Int[np.ndarray, "B"]  # the round whose broadcast the answer is to
    steps: Int[np.ndarray, "B"]  # local steps, as the site made them
    weight: Float[np.ndarray, "B"]  # that the task's letter told
    length: Float[np.ndarray, "B"]  # |up|
    arrived: Bool[np.ndarray, "B"]  # False: an answer whose numbers cannot count
    up: PyTree  # leaves [B, ...]


class Arrivals(NamedTuple):
    """Arrays are changed in place within a step; broadcasts are replaced."""

    began: Int[np.ndarray, "m"]  # the round whose broadcast each site works on, NO_TASK for none
    told: Float[np.ndarray, "m"]  # the weight in its task's letter: asked again, the letter is the same
    filled: Int[np.ndarray, ""]  # seats of the buffer that are taken
    seats: Seats
    order: Plan  # of the steps that were made; zeros from there on
    stale: Int[np.ndarray, "m"]  # sum of the staleness of each site's answers that counted
    stalest: Int[np.ndarray, "m"]  # the largest of them
    broadcasts: dict[str, PyTree]  # by round, those that somebody works on

    @classmethod
    def none(cls, clients: int, rounds: int, buffer: int, up: PyTree) -> Arrivals:
        """Before the first task; `up` has the shapes of an answer's message."""

        def whole(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int64)

        def table() -> np.ndarray:
            return np.zeros((rounds, buffer), np.int32)

        ups = trees.map(lambda s: np.zeros((buffer, *s.shape), s.dtype), up)
        told, size, length = np.zeros(clients, np.float32), np.zeros(buffer, np.float32), np.zeros(buffer)
        seats = Seats(whole(buffer), whole(buffer), whole(buffer), size, length, np.zeros(buffer, bool), ups)
        order = Plan(table(), table(), np.zeros((rounds, buffer), bool), table(), np.zeros(rounds))
        return cls(np.full(clients, NO_TASK, np.int64), told, whole(), seats, order, whole(clients), whole(clients), {})

    def copied(self) -> Arrivals:
        """With arrays that may be changed in place; the broadcasts themselves never are."""
        return trees.map(np.array, self._replace(broadcasts={}))._replace(broadcasts=dict(self.broadcasts))

    def like(self, names: Iterable[str], shared: PyTree) -> Arrivals:
        """The shapes of a stored one, whose broadcasts, each like `shared`, the `names` of its arrays tell."""
        rounds = {name.split(".")[2] for name in names if name.startswith("arrivals.broadcasts.")}
        return self._replace(broadcasts=dict.fromkeys(sorted(rounds), shared))

    @property
    def seated(self) -> list[int]:
        """The sites whose answers are in the buffer."""
        return self.seats.client[: int(self.filled)].tolist()

    def row(self, number: int) -> np.ndarray:
        """Writes step `number` into the order, by client, and gives the seats in that order; seats that stayed empty are those
        of sites that are not in the buffer, as lost answers without a step, so that all steps have the same shape."""
        taken, buffer, clients = int(self.filled), len(self.seats.client), len(self.began)
        empty = [i for i in range(clients) if i not in self.seated][: buffer - taken]
        client = np.concatenate([self.seats.client[:taken], np.asarray(empty, np.int64)])
        self.seats.client[taken:], self.seats.began[taken:], self.seats.steps[taken:] = empty, number, 0
        self.seats.arrived[taken:], self.seats.weight[taken:] = False, 1.0
        by_client = np.argsort(client)
        self.order.ids[number] = client[by_client]
        self.order.steps[number] = self.seats.steps[by_client]
        self.order.arrived[number] = self.seats.arrived[by_client]
        self.order.staleness[number] = number - self.seats.began[by_client]  # pyright: ignore[reportOptionalSubscript]
        return by_client

    def emptied(self) -> Arrivals:
        """With an empty buffer, and without the broadcasts that nobody works on."""
        self.filled[...] = 0
        kept = {str(r) for r in self.began.tolist()}
        return self._replace(broadcasts={r: shared for r, shared in self.broadcasts.items() if r in kept})
