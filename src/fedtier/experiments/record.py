"""What a run writes down: a line of metrics for each seed and evaluation, and the files at its end."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from ..engines import State
from ..federation import Plan
from .assemble import Experiment
from .metrics import Scores, Traffic, evaluated_clients, spread
from .run_folder import RunFolder


class Spent(NamedTuple):
    """What the rounds so far have cost."""

    bytes_down: int
    bytes_up: int
    local_steps: int


def row(
    scores: Scores, s: int, number: int, seed: int, spent: Spent, seconds: dict[str, float], held: np.ndarray | None = None
) -> dict[str, Any]:
    """One line of metrics.jsonl; `held` is how many rows each client was judged on, where that is known."""
    f1, f2 = float(scores.f1[s]), _mean(scores.f2[s])
    return {
        "round": number,
        "seed": seed,
        "f1": _number(f1),
        "f2": _number(f2),
        "f": _number(f1 + f2),
        "global_loss": _number(scores.global_loss[s]),
        "global_accuracy": _number(scores.global_accuracy[s]),
        "personal_accuracy": spread(scores.personal_accuracy[s], held),
        "global_on_clients": spread(scores.global_on_client[s], held),
        **spent._asdict(),
        "seconds": {key: round(value, 4) for key, value in seconds.items()},
    }


def row_of(
    experiment: Experiment, size: Traffic, scores: Scores, s: int, number: int, seconds: dict[str, float]
) -> dict[str, Any]:
    """The line of seed number s after `number` rounds of a simulation: what the plan says was sent and computed."""
    plan = Plan(*(table[s, :number] for table in experiment.plan))
    clients = plan.ids < experiment.clients  # a seat for the server's data sends nothing
    spent = Spent(
        int(clients.sum()) * size.down,
        int((clients & plan.arrived).sum()) * size.up,
        int(plan.steps[clients].sum()) * experiment.method.solves,
    )
    held = held_rows(experiment)
    judged = None if held is None else held[s, evaluated_clients(experiment)]
    return row(scores, s, number, experiment.config.run.seed + s, spent, seconds, judged)


def finish(experiment: Experiment, store: RunFolder, state: State, scores: Scores) -> None:
    """The files of a run that is over."""
    x = experiment.method.global_model(state.server)
    if x is not None:
        store.write_arrays("model.safetensors", x, model=experiment.config.model.name, seeds=experiment.config.run.seeds)
    who, held = evaluated_clients(experiment).tolist(), held_rows(experiment)
    clients = [
        {"seed": experiment.config.run.seed + s, "clients": who, "personal": _numbers(personal), "global": _numbers(shared)}
        | ({} if held is None else {"held": held[s, who].tolist()})
        for s, (personal, shared) in enumerate(zip(scores.personal_accuracy, scores.global_on_client, strict=True))
    ]
    store.write("clients.json", json.dumps(clients).encode())
    store.log("finished")


def held_rows(experiment: Experiment) -> np.ndarray | None:
    """[seeds, m] how many rows each client is judged on; None on the wire, where a site alone knows."""
    held = np.asarray(experiment.federation.held.size)
    return held if np.asarray(experiment.federation.train.size).any() else None


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values]
