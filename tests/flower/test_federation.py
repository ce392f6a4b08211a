"""Three SuperNodes and a SuperLink on loopback: the same models as a simulation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.experiments.session import Result

from ..small_runs import mostly_slow
from .federation import Federation, federation

pytestmark = pytest.mark.flower

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {
        "rounds": 3, "participation": 1.0, "tau": [3.0, 5.0, 9.0], "stragglers": 0.3, "dropouts": 0.25, "eval_every": 3,
        "seed": 3,
    },
}  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "zo_hfl": {"name": "zo_hfl", "preset": "paper", "server_lr": "inverse_sqrt(0.5)", "penalty": 2.0},
    "fedavg": {"name": "fedavg", "server_seat": False},  # between sites there is none
    "scaffold": {"name": "scaffold", "server_seat": False},
}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("trial"), TABLES) as made:
        yield made


@pytest.mark.parametrize("name", mostly_slow(["zo_hfl", "fedavg"], "zo_hfl"))
def test_flower_gives_the_models_of_the_simulation(trial: Federation, name: str, tmp_path: Path) -> None:
    """Unequal data, unequal H, a straggler, a drop-out."""
    trial.configure(name, METHODS[name])
    trial.begin(name)
    same(trial.finish(name), simulated(name, tmp_path / "sim"))


@pytest.mark.slow
def test_a_run_that_is_stopped_and_a_site_that_is_killed_go_on_where_they_were(trial: Federation, tmp_path: Path) -> None:
    """SCAFFOLD's clients hold a state; the node that comes back is another one to Flower, the site is the same."""
    trial.configure("scaffold", METHODS["scaffold"])
    number = trial.begin("scaffold")
    trial.until((trial.root / "runs/scaffold/checkpoint.safetensors").exists, "the first round")
    trial.call("flwr", "stop", number)
    trial.kill("node-0")
    trial.join(0)
    trial.begin("scaffold")
    wired = trial.finish("scaffold")
    assert "goes on after round" in (wired / "run.log").read_text()
    same(wired, simulated("scaffold", tmp_path / "sim"))


def simulated(name: str, folder: Path) -> Result:
    found = run_experiment(configuration.validate(TABLES | {"method": METHODS[name]}), folder, progress=Progress())
    plan = found.experiment.plan
    steps, arrived = np.asarray(plan.steps)[0], np.asarray(plan.arrived)[0]
    assert not arrived.all(), "no drop-out in this plan"
    assert (steps == 0).any() and len(set(steps[0].tolist())) == 3, "no straggler, or equal H, in this plan"
    return found


def same(wired: Path, simulation: Result) -> None:
    found, wanted = model(wired), model(simulation.folder)
    assert np.linalg.norm(found - wanted) <= 1e-6 * np.linalg.norm(wanted)
    last, expected = rows(wired)[-1], rows(simulation.folder)[-1]
    for key in ("round", "local_steps", "bytes_down", "bytes_up"):
        assert last[key] == expected[key]
    assert last["personal_accuracy"]["mean"] == pytest.approx(expected["personal_accuracy"]["mean"], abs=1e-6)
    counted = json.loads((wired / "sites.json").read_text())["sites"]
    assert sum(site["counted"] for site in counted.values()) == int(np.asarray(simulation.experiment.plan.arrived).sum())


def model(folder: Path) -> np.ndarray:
    arrays = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
