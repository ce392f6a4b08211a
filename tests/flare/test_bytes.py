"""Bytes on the socket against the report's columns, and seconds a round against the same run without a network."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtier.deploy.flare.frames import on_the_wire

from .federation import Federation, federation, rounds_done, until
from .relay import Relay, through

pytestmark = [pytest.mark.flare, pytest.mark.slow]

SOFTMAX_784 = {"name": "synthetic", "clients": 3, "features": 784, "classes": 10, "rows": 40, "partition": "natural"}


def last_row(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def counts(relay: Relay) -> np.ndarray:
    return np.asarray([relay.down, relay.up])


def idle_rate(made: Federation, relay: Relay, method: dict[str, Any]) -> np.ndarray:
    """Bytes a second while a job runs and no letter moves: the solvers stand still, FLARE does not."""
    run = made.configure("idle", {"method": method, "run": {"rounds": 100_000, "eval_every": 100_000}})
    made.serve(run, "runs/idle")
    until(lambda: rounds_done(made.root / "runs/idle") > 5, "rounds")
    solvers = made.marked("state", "fedtier.deploy.site")
    for process in solvers:
        process.suspend()
    time.sleep(3)
    before = counts(relay)
    time.sleep(20)
    rate = (counts(relay) - before) / 20
    for process in solvers:
        process.resume()
    made.processes["server"].terminate()
    made.processes["server"].wait(60)
    return rate


@pytest.mark.parametrize(
    "method", [{"name": "fedavg"}, {"name": "zo_hfl", "preset": "paper", "uplink": "values"}], ids=lambda m: m["name"]
)
def test_the_bytes_of_a_round_are_those_predicted(tmp_path: Path, method: dict[str, Any], capsys: Any) -> None:
    """The difference of a long and a short run: greetings, evaluations and the end are in both."""
    tables = {
        "data": SOFTMAX_784,
        "run": {"rounds": 10, "participation": 1.0, "tau": 1.0, "eval_every": 1000},
        "method": method,
    }
    with federation(tmp_path, tables) as made:
        relay = Relay(made.port)
        through(made, relay)
        for site in made.sites:
            made.join(site)
        seen, told, took = [], [], []
        for rounds in (10, 110):
            before = counts(relay)
            folder = made.play(made.configure(f"{rounds}", {"method": method, "run": {"rounds": rounds}}), f"runs/{rounds}")
            seen.append(counts(relay) - before)
            row = last_row(folder)
            told.append(np.asarray([row["bytes_down"], row["bytes_up"]]))
            took.append(row["seconds"]["run"])
        idle = idle_rate(made, relay, method)
        relay.close()
    measured = seen[1] - seen[0] - idle * (took[1] - took[0])
    letters = told[1] - told[0]
    predicted = np.asarray(on_the_wire(*letters.tolist(), exchanges=3 * 100))
    with capsys.disabled():
        print(f"\n{method['name']}, bytes [down, up] per exchange: letters {letters / 300},", end=" ")
        print(f"predicted with frames {predicted / 300}, measured {measured / 300}; idle {idle} a second")
    assert letters[0] >= 300 * 4 * 7840
    np.testing.assert_allclose(measured, predicted, rtol=0.05)


def _seconds_a_round(folder: Path) -> float:
    first, *_, last = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    return (last["seconds"]["run"] - first["seconds"]["run"]) / (last["round"] - first["round"])
