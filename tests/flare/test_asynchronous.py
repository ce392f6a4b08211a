"""FedBuff between three sites over FLARE, one of them three times slower: nobody waits for it, a simulation gives the bits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.federation import Plan
from fedtier.storage.array_files import ArrayFile

from .federation import Federation, federation, model

pytestmark = pytest.mark.flare

STEPS, TASK = 12, 0.4  # seconds that a task takes longer at the fast sites than its computing; three times that at the slow one
FAST, SLOW = ("site-0", "site-1"), "site-2"
TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": STEPS, "participation": 1.0, "tau": 1.0, "eval_every": STEPS},
    "method": {"name": "fedbuff", "buffer": 2, "server_seat": False},
}
HOOKS = Path(__file__).parent / "hooks"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    path = os.pathsep.join([str(HOOKS), *filter(None, [os.environ.get("PYTHONPATH")])])
    with federation(tmp_path_factory.mktemp("trial"), TABLES) as made:
        for site in made.sites:
            made.join(site, {"SLOW_EXECUTOR": str(3 * TASK if site == SLOW else TASK), "PYTHONPATH": path})
        yield made


def test_fast_sites_answer_more_often_and_the_recorded_order_gives_the_same_bits(trial: Federation, tmp_path: Path) -> None:
    folder = trial.play(trial.root / "data/run.toml", "runs/buff")
    arrays = ArrayFile(folder / "plan.safetensors", "fedtier-1", "").whole()
    plan = Plan(*(arrays[name] for name in Plan._fields))
    told = json.loads((folder / "sites.json").read_text())["sites"]
    assert told[SLOW]["counted"] < min(told[site]["counted"] for site in FAST)
    assert told[SLOW]["stalest"] >= 1 and plan.arrived.all()
    config = configuration.validate(TABLES)
    simulated = run_experiment(config, tmp_path / "sim", progress=Progress(), experiment=assemble(config)._replace(plan=plan))
    np.testing.assert_array_equal(model(folder), model(simulated.folder))


@pytest.mark.slow
def test_as_many_steps_take_less_time_than_rounds_that_wait_and_the_records_agree(trial: Federation) -> None:
    steps = trial.play(trial.root / "data/run.toml", "runs/buff")
    trial.call("record", f"state/{SLOW}", "--against", "runs/buff")  # before it has letters of another run
    changes = {"method": {"name": "fedavg", "server_seat": False}}
    rounds = trial.play(trial.configure("avg", changes), "runs/avg")
    seconds = [_seconds(folder) for folder in (steps, rounds)]
    print(f"{STEPS} steps of FedBuff: {seconds[0]:.1f} s; {STEPS} rounds of FedAvg: {seconds[1]:.1f} s")
    assert seconds[1] >= 3 * TASK * STEPS and seconds[0] < 0.7 * seconds[1]


def _seconds(folder: Path) -> float:
    """From the first to the last row."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return rows[-1]["seconds"]["run"] - rows[0]["seconds"]["run"]
