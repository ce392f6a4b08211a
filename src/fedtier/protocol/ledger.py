"""What the server knows between two rounds, all of it in the checkpoint, and what it is told before the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from ..errors import positive, require, share, whole
from ..federation import Plan, View
from ..methods.method import Method
from .arrivals import Arrivals
from .memory import BEFORE
from .validation import no_history


class Job(NamedTuple):
    """A run as the server holds it."""

    run: bytes  # the run's id, 16 bytes: the same after every restart
    names: tuple[str, ...]  # [m] of the sites; client i is names[i]
    method: Method
    plan: Plan
    key: Key[Array, ""]
    view: View  # the server's own rows
    specs: Callable[[np.ndarray], PyTree]  # (rows of each site [m], 0 where unknown) -> specs, leaves [m, ...]
    up: PyTree  # shapes of a reply's message
    brief: str = ""  # for the sites: what they make their player from
    x: PyTree = ()  # x_0
    most_score: float = 1.0  # the largest score that a site may tell: accuracies are shares, errors of a regression are not
    shown: PyTree = ()  # the rows that a method shows to every site, once: with the hello


class Rules(NamedTuple):
    """When a round counts."""

    start: int  # sites that must have answered before the first round
    quorum: float = 0.5  # share of the cohort's replies without which a round is asked again, for ever
    deadline: float = 60.0  # seconds that a round waits for its replies
    magnitude: float = 1e4  # see `judge`
    max_staleness: int = 100  # of a method with a buffer: an answer that is more steps old is refused

    def check(self, clients: int) -> Rules:
        whole("start", self.start)
        require(self.start <= clients, "start", self.start, f"there are only {clients} sites", "lower it")
        share("quorum", self.quorum, zero=False, one=True)
        positive("deadline", self.deadline)
        whole("max_staleness", self.max_staleness, 0)
        require(self.magnitude > 1, "magnitude", self.magnitude, "must be above 1", "inf switches the check off")
        return self


class Ledger(NamedTuple):
    """The state of a run at the server. Arrays stay NumPy: counters have 64 bits."""

    server: PyTree
    last: Int[np.ndarray, "m"]  # the last round of each site that counted, -1 for none
    rows: Int[np.ndarray, "m"]  # as the sites said; 0 = has never answered
    recent: Float[np.ndarray, "W"]  # lengths of the latest replies that counted
    counted: Int[np.ndarray, "m"]  # replies of each site that counted
    silent: Int[np.ndarray, "m"]  # rounds in which it was asked and nothing came in time
    declined: Int[np.ndarray, "m"]
    refused: Int[np.ndarray, "m"]  # answers that were not fit to count, or in which it refused
    bytes_down: Int[np.ndarray, ""]  # of rounds, what was asked again included
    bytes_up: Int[np.ndarray, ""]  # of replies that counted
    bytes_aside: Int[np.ndarray, ""]  # of hellos, evaluations, seals and what did not count, both ways
    local_steps: Int[np.ndarray, ""]  # per solve
    held: Int[np.ndarray, "m"]  # rows that each site holds back for its own test, as it said
    arrivals: Arrivals | tuple[()] = ()  # of a method with a buffer

    @classmethod
    def first(cls, server: PyTree, clients: int) -> Ledger:
        def none() -> np.ndarray:
            return np.zeros(clients, np.int64)

        return cls(
            server, np.full(clients, BEFORE, np.int64), none(), no_history(), none(), none(), none(), none(),
            np.zeros((), np.int64), np.zeros((), np.int64), np.zeros((), np.int64), np.zeros((), np.int64), none(),
        )  # fmt: skip

    def copied(self) -> Ledger:
        """A ledger whose counters may be changed in place."""
        arrivals = self.arrivals.copied() if isinstance(self.arrivals, Arrivals) else ()
        counters = {name: np.array(getattr(self, name)) for name in self._fields[1:-1]}
        return self._replace(**counters, arrivals=arrivals)
