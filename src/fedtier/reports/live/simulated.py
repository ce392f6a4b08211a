"""Who answers in a simulation: the run's plan says who is asked in which round, who is late and whose reply is lost."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy

from .state import ANSWERED, LATE, NOT_ASKED, SILENT

PLAN_FILE = "plan.safetensors"


class Seats(NamedTuple):
    """The plan of the first seed."""

    ids: np.ndarray  # [R, S]
    steps: np.ndarray  # [R, S]
    arrived: np.ndarray  # [R, S]


class Part(NamedTuple):
    """What a client has done in the rounds so far."""

    standing: str
    why: str
    last: int | None  # the last round, from 0, in which its reply counted
    counted: int
    silent: int


def read_plan(path: Path) -> Seats | None:
    """None where there is none that can be read now."""
    try:
        arrays = safetensors.numpy.load_file(path)
        return Seats(*(arrays[name][0] for name in Seats._fields))
    except Exception:  # the parser raises many types
        return None


def parts(plan: Seats | None, clients: np.ndarray, rounds: int) -> dict[int, Part]:
    """What each of the clients has done in the first `rounds` rounds."""
    if plan is None or rounds == 0:
        return {int(client): Part(NOT_ASKED, "", None, 0, 0) for client in clients}
    ids, _, arrived = (table[:rounds] for table in plan)
    count = 1 + max(int(ids.max(initial=0)), int(clients.max(initial=0)))
    counted, lost = (np.bincount(ids[chosen], minlength=count) for chosen in (arrived, ~arrived))
    last = np.full(count, -1)
    np.maximum.at(last, ids[arrived], np.nonzero(arrived)[0])
    return {
        int(i): Part(
            *_standing(plan, int(i), rounds - 1), int(last[i]) if last[i] >= 0 else None, int(counted[i]), int(lost[i])
        )
        for i in clients
    }


def _standing(plan: Seats, client: int, number: int) -> tuple[str, str]:
    """How a client stands in round `number`, and why."""
    seat = np.flatnonzero(plan.ids[number] == client)
    if not len(seat):
        return NOT_ASKED, f"not in round {number}"
    if not plan.arrived[number, seat[0]]:
        return SILENT, f"the plan loses its reply in round {number}"
    if not plan.steps[number, seat[0]]:
        return LATE, f"a straggler: no local step in round {number}"
    return ANSWERED, ""
