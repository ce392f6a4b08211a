"""Every choice that no iterate influences, made on the host before the first round and stored with the run.

H_{i,r} = ceil(tau_i sqrt(r + 1)) is computed in float64: in float32 it can be off by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..errors import choice, require, share, whole
from .clock import Clock
from .shares import count_of

ORDERS = ("drawn", "cycle", "poisson")
MOST_STEPS = 2**31  # counters on the devices have 32 bits


class Plan(NamedTuple):
    """Rows are rounds, columns the seats of the cohort, client numbers ascending in each row. Several plans stack in front."""

    ids: Int[np.ndarray, "R S"]
    steps: Int[np.ndarray, "R S"]  # H_{i,r}; 0 = straggler
    arrived: Bool[np.ndarray, "R S"]  # False = the reply is lost
    staleness: Int[np.ndarray, "R S"] | None = None  # rounds since the broadcast that the reply answers; None: 0 for all
    seconds: Float[np.ndarray, "R"] | None = None  # virtual time at the end of each round; None: there is no clock

    def padded(self, cohort: int) -> Plan:
        """The same plan with so many seats in every round, at most one for each client: in a new seat sits somebody without
        local steps whose reply does not count. Only for plans without staleness."""
        if cohort == self.cohort:
            return self
        ids = np.stack([_filled(row, cohort) for row in self.ids])
        order, more = np.argsort(ids, axis=1), [(0, 0), (0, cohort - self.cohort)]
        tables = (ids, np.pad(self.steps, more), np.pad(self.arrived, more))
        return Plan(*(np.take_along_axis(table, order, axis=1) for table in tables), seconds=self.seconds)

    @property
    def rounds(self) -> int:
        return self.ids.shape[-2]

    @property
    def cohort(self) -> int:
        return self.ids.shape[-1]

    @property
    def history(self) -> int:
        """How many of the latest broadcasts an engine must remember, the newest included."""
        return 1 if self.staleness is None else 1 + int(np.max(self.staleness, initial=0))


def growing_steps(tau: float | np.ndarray, rounds: int) -> Int[np.ndarray, "R *m"]:
    """ceil(tau_i sqrt(r + 1)) for r = 0 .. rounds - 1."""
    taus = np.asarray(tau, float)
    require(bool(np.all(taus >= 0) and np.all(np.isfinite(taus))), "tau", tau, "must be finite and at least 0")
    table = np.ceil(np.sqrt(np.arange(rounds) + 1.0).reshape(-1, *[1] * taus.ndim) * taus)
    require(bool(np.all(table < MOST_STEPS)), "tau", tau, f"asks for {MOST_STEPS} local steps or more", "lower it")
    return table.astype(np.int32)


def cohort_size(participation: float, clients: int) -> int:
    """How many of the clients are asked in a round: halves are rounded up, and at least one is asked."""
    return max(1, count_of(participation, clients))


def steps_table(tau: float | np.ndarray, steps: np.ndarray | None, clients: int, rounds: int) -> Int[np.ndarray, "R m"]:
    """H_{i,r} of every client in every round, by `tau` or by a table `steps`; see `make_plan`."""
    if steps is None:
        require(np.shape(tau) in ((), (clients,)), "tau", tau, f"must be one number or one for each of {clients} clients")
    table = growing_steps(tau, rounds) if steps is None else np.asarray(steps)
    whole_numbers = bool(np.all((table >= 0) & (table < MOST_STEPS) & (table == np.floor(table))))
    fits = table.shape in ((rounds,), (rounds, clients)) and whole_numbers
    require(fits, "steps", table.shape, f"must be whole numbers >= 0 of shape [{rounds}] or [{rounds}, {clients}]")
    return np.broadcast_to(table if table.ndim == 2 else table[:, None], (rounds, clients))


def make_plan(
    rng: np.random.Generator,
    *,
    clients: int,
    rounds: int,
    participation: float = 1.0,
    tau: float | np.ndarray = 20.0,
    steps: np.ndarray | None = None,
    stragglers: float = 0.0,
    dropouts: float = 0.0,
    seat: bool = False,
    clock: Clock | None = None,
    order: str = "drawn",
) -> Plan:
    """Draws cohorts of `cohort_size` clients, uniformly without replacement; with order = "cycle" clients take turns: each
    is asked once, in an order drawn anew, before anyone is asked again; with "poisson" every client is asked with the same
    chance, by a coin of its own: there are as many seats as the largest cohort needs, and in free ones nobody counts.

    `tau` is one number or one per client; `steps`, a table [R] or [R, m], replaces it. `stragglers` is the chance
    that a chosen client makes no step, `dropouts` that its reply is lost. `seat` adds client number m, the server's
    data (`dealing.with_seat`), to every round: the server is always there and never late. With a `clock` a round lasts as
    long as the slowest of its cohort, stragglers included.
    """
    whole("rounds", rounds, 0)
    whole("clients", clients)
    share("participation", participation, "the share of clients asked in a round, above 0", zero=False, one=True)
    choice("order", order, ORDERS)
    share("stragglers", stragglers, one=True)
    share("dropouts", dropouts)
    table = steps_table(tau, steps, clients, rounds)
    cohort = cohort_size(participation, clients)
    if order == "poisson":
        require(not seat and clock is None, "order", order, "goes with neither a seat for the server nor a clock", "drawn")
        return _by_coins(rng, cohort / clients, table, stragglers, dropouts)
    ids = _in_turn(rng, clients, rounds, cohort) if order == "cycle" else _drawn(rng, clients, rounds, cohort)
    chosen = np.take_along_axis(table, ids, axis=1).astype(np.int32)
    seconds = None if clock is None else np.cumsum(clock.takes(ids, chosen).max(axis=1))
    late, lost = rng.spawn(2)  # streams of their own: a plan of more rounds begins with this one
    chosen[late.random(ids.shape) < stragglers] = 0
    arrived = lost.random(ids.shape) >= dropouts
    if seat:
        average = np.ceil(table.mean(axis=1, keepdims=True)).astype(np.int32)
        ids = np.hstack([ids, np.full((rounds, 1), clients, np.int32)])
        chosen, arrived = np.hstack([chosen, average]), np.hstack([arrived, np.ones((rounds, 1), bool)])
    return Plan(ids, chosen, arrived, seconds=seconds)


def _by_coins(rng: np.random.Generator, chance: float, table: np.ndarray, stragglers: float, dropouts: float) -> Plan:
    """Rounds of different sizes, padded; all draws are one for each client, so that a longer plan begins with this one."""
    coins, late, lost = rng.spawn(3)
    asked = coins.random(table.shape) < chance
    steps = np.where(late.random(table.shape) < stragglers, 0, table) * asked
    arrived = asked & (lost.random(table.shape) >= dropouts)
    seats = max(1, int(asked.sum(axis=1).max(initial=0)))
    ids = np.stack([np.sort(_filled(np.flatnonzero(row), seats)) for row in asked] or [np.arange(seats)])[: len(asked)]
    tables = (np.take_along_axis(one, ids, axis=1) for one in (steps.astype(np.int32), arrived))
    return Plan(ids.astype(np.int32), *tables)


def _filled(ids: Int[np.ndarray, "k"], seats: int) -> Int[np.ndarray, "S"]:
    """These clients and the lowest numbers that are not among them, `seats` in all."""
    free = np.setdiff1d(np.arange(seats), ids)
    return np.concatenate([ids, free[: seats - len(ids)]]).astype(np.int32)


def _drawn(rng: np.random.Generator, clients: int, rounds: int, cohort: int) -> Int[np.ndarray, "R S"]:
    ids = [np.sort(rng.choice(clients, cohort, replace=False)) for _ in range(rounds)]
    return np.stack(ids or [np.zeros(cohort, int)])[:rounds].astype(np.int32)


def _in_turn(rng: np.random.Generator, clients: int, rounds: int, cohort: int) -> Int[np.ndarray, "R S"]:
    rule = f"of {clients} clients is {cohort}, which does not divide them into equal turns"
    require(clients % cohort == 0, "participation", cohort / clients, rule, f"{1 / clients:g} asks one client at a time")
    cycles = -(-rounds * cohort // clients)
    turns = [rng.permutation(clients) for _ in range(cycles)]
    return np.sort(np.concatenate([*turns, np.zeros(0, int)])[: rounds * cohort].reshape(rounds, cohort), axis=1).astype(
        np.int32
    )
