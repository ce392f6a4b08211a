"""A line of metrics.jsonl: one seed after one of its evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

Spread = dict[str, float | None]  # over clients: mean, by_rows, min and p10, or of errors max and p90; None where there is none


class Row(TypedDict):
    """Scores are None where there is nothing to measure; errors are those of a regression, in the label's own unit."""

    round: int
    seed: int
    f1: float | None
    f2: float | None
    f: float | None
    global_loss: float | None
    global_accuracy: float | None
    personal_accuracy: Spread
    global_on_clients: Spread
    global_rmse: NotRequired[float | None]
    global_mae: NotRequired[float | None]
    global_r2: NotRequired[float | None]
    personal_rmse: NotRequired[Spread]
    personal_r2: NotRequired[Spread]
    global_rmse_on_clients: NotRequired[Spread]
    by_client: dict[str, list[float | None]]  # of some of the clients, by model: personal, global
    virtual_seconds: NotRequired[float]  # by the clock of the plan, where it has one
    epsilon: NotRequired[float]  # spent so far, of a run under privacy
    bytes_down: int
    bytes_up: int
    local_steps: int
    seconds: dict[str, float]  # by phase
    new_clients: NotRequired[dict[str, Spread]]  # of those who never train, by score
    metrics: NotRequired[dict[str, dict[str, float | Spread | None]]]  # of run.metrics: global, personal, global_on_clients


class Errors(TypedDict, total=False):
    """The scores of a regression in a row; none of another task."""

    global_rmse: float | None
    global_mae: float | None
    global_r2: float | None
    personal_rmse: Spread
    personal_r2: Spread
    global_rmse_on_clients: Spread


class AtTheEnd(TypedDict, total=False):
    """What only the last row of a seed has."""

    new_clients: dict[str, Spread]
    metrics: dict[str, dict[str, float | Spread | None]]


def at(row: Mapping[str, object], path: tuple[str, ...]) -> float | None:
    """The number that a row has at `path`; None where it has none."""
    value: object = row
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None
