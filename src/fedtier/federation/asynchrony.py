"""The plan of a server that does not wait for a cohort: who is in the buffer at each of its steps, and how stale.

A number of clients work at any time, each on the broadcast that was the latest when it began. A job that ends goes into the
buffer, and another client begins; with B jobs in the buffer the server makes a step. A client whose job is in the buffer
begins no other before that step, so nobody is twice in one step and everybody has one job at a time. What ends at the same
instant is in the buffer before anybody begins: with equal speeds and B = the number of clients at work nothing is stale.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from ..errors import require, share, whole
from .clock import Clock
from .plan import Plan, cohort_size, steps_table


class _Job(NamedTuple):
    due: float
    order: int  # of the beginnings, for jobs that end at the same instant
    client: int
    began: int  # the server step whose broadcast it works on
    steps: int
    arrives: bool


def asynchronous_plan(
    rng: np.random.Generator,
    clock: Clock,
    *,
    clients: int,
    rounds: int,
    buffer: int,
    participation: float = 1.0,
    tau: float | np.ndarray = 20.0,
    steps: np.ndarray | None = None,
    stragglers: float = 0.0,
    dropouts: float = 0.0,
    seat: bool = False,
) -> Plan:
    """`rounds` server steps, each after `buffer` jobs; `participation` is the share of the clients that work at any time.

    Whoever begins is drawn uniformly from those who neither work nor are in the buffer, and makes the H of the step at which
    it begins. A straggler takes its time and makes no step. A lost reply takes its place in the buffer when it would have
    come, as arrived = False. The other options are those of `make_plan`; a plan of more rounds begins with this one.
    """
    whole("rounds", rounds, 0)
    whole("clients", clients)
    whole("buffer", buffer)
    require(buffer <= clients, "buffer", buffer, f"there are only {clients} clients, each of them at most once in a buffer")
    share("participation", participation, "the share of clients at work, above 0", zero=False, one=True)
    share("stragglers", stragglers, one=True)
    share("dropouts", dropouts)
    table = steps_table(tau, steps, clients, rounds)
    filled, seconds = _played(rng, clock, table, buffer, cohort_size(participation, clients), stragglers, dropouts)
    if seat:
        average = np.ceil(table.mean(axis=1)).astype(int)
        filled = [[*row, _Job(0.0, 0, clients, r, int(average[r]), True)] for r, row in enumerate(filled)]
    shape = (rounds, buffer + seat)
    ids, made, began = (
        np.asarray([[getattr(job, field) for job in row] for row in filled], np.int32).reshape(shape)
        for field in ("client", "steps", "began")
    )
    arrived = np.asarray([[job.arrives for job in row] for row in filled], bool).reshape(shape)
    return Plan(ids, made, arrived, np.arange(rounds, dtype=np.int32)[:, None] - began, np.asarray(seconds, float))


def _played(
    rng: np.random.Generator, clock: Clock, table: np.ndarray, buffer: int, working: int, stragglers: float, dropouts: float
) -> tuple[list[list[_Job]], list[float]]:
    """The jobs of each server step by their client's number, and the time of each step."""
    rounds, clients = table.shape
    late, lost = rng.spawn(2)
    idle, queue, jobs, begun = [*range(clients)], [], [], 0
    filled: list[list[_Job]] = []
    seconds: list[float] = []
    now = 0.0
    while len(filled) < rounds:
        while idle and len(queue) < working:
            place = int(rng.integers(len(idle)))
            idle[place], idle[-1] = idle[-1], idle[place]
            client, number = idle.pop(), len(filled)
            planned = int(table[number, client])
            made = 0 if late.random() < stragglers else planned
            due = now + float(clock.takes(np.asarray(client), np.asarray(planned)))
            heapq.heappush(queue, _Job(due, begun, client, number, made, bool(lost.random() >= dropouts)))
            begun += 1
        now = queue[0].due
        while queue and queue[0].due == now and len(filled) < rounds:
            jobs.append(heapq.heappop(queue))
            if len(jobs) == buffer:
                jobs.sort(key=lambda job: job.client)
                filled.append(jobs)
                seconds.append(now)
                idle += [job.client for job in jobs]
                jobs = []
    return filled, seconds
