"""What can be said of a run at one moment. These are the words of state.json, of /metrics and of the page."""

from __future__ import annotations

from typing import NamedTuple

STARTING, RUNNING, STALLED, STOPPED = "starting", "running", "stalled", "stopped"
DIVERGED, FINISHED, DAMAGED = "diverged", "finished", "damaged"
PHASES = (STARTING, RUNNING, STALLED, STOPPED, DIVERGED, FINISHED, DAMAGED)
GOES_ON = (STARTING, RUNNING, STALLED)  # some process holds the folder

ANSWERED, WORKING, NOT_ASKED, LATE, SILENT = "answered", "working", "not asked", "late", "silent"
DECLINED, REFUSED, MISSING = "declined", "refused", "missing"
STANDINGS = (ANSWERED, WORKING, NOT_ASKED, LATE, SILENT, DECLINED, REFUSED, MISSING)
AWAY = (SILENT, REFUSED, MISSING)  # what an operator must see to


class Client(NamedTuple):
    """One client or site. Scores are of the run's first seed: accuracies, or errors of a regression in the label's unit."""

    name: str
    standing: str  # one of STANDINGS, in the latest round that is known
    why: str  # in words, where it did not answer
    last: int | None  # the last round in which its reply counted
    counted: int | None  # replies that counted
    silent: int | None  # rounds in which nothing came in time; in a simulation, drop-outs
    declined: int | None
    refused: int | None  # answers that could not count
    personal: float | None
    shared: float | None  # of the global model, on the same rows
    gap: float | None  # personal minus global
    strip: list[float | None]  # of the personal model, or of the global one where there is none, by evaluation
    staleness: float | None = None  # without rounds: how many steps old its answers were that counted, on average


class Run(NamedTuple):
    """One run. Means are over seeds."""

    run: str  # its folder's name, in a store with the way there
    title: str
    between_sites: bool
    phase: str  # one of PHASES
    why: str  # in words, where it does not simply run
    round: int
    rounds: int | None
    measure: str  # accuracy or rmse
    shared: float | None  # of the global model on the global test rows
    loss: float | None
    personal: float | None  # mean over clients, on their own test rows
    gap: float | None  # personal minus global, both on the clients' test rows
    epsilon: float | None  # privacy spent, where the rows tell it
    bytes_down: int
    bytes_up: int
    local_steps: int
    seconds: float
    seconds_a_round: float | None
    seconds_left: float | None
    progressed: float | None  # when it last moved, seconds since the epoch
    evaluations: list[int]  # the rounds of the strips
    clients: list[Client]  # empty in all but the latest runs of a store
    clients_in_all: int
    log: list[str]
    warnings: list[str]  # certificates that end soon
    certificates: dict[str, float]  # until when each party's holds, seconds since the epoch


class State(NamedTuple):
    """A watched folder."""

    folder: str
    runs: list[Run]  # those that go on first, then the latest
    left_out: int  # runs of a large store that are not told


def as_object(state: State) -> dict[str, object]:
    """For JSON."""
    runs = [run._asdict() | {"clients": [client._asdict() for client in run.clients]} for run in state.runs]
    return {"folder": state.folder, "runs": runs, "left_out": state.left_out}
