"""Three sites and a server over mutual TLS on loopback: the same models as a simulation, for the bytes it predicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedtier.experiments import config as configuration
from fedtier.experiments.comparison import cell_name
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

from .federation import Federation, federation, model, until

pytestmark = pytest.mark.flare

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 8, "participation": 0.67, "tau": [3.0, 5.0, 9.0], "stragglers": 0.25, "dropouts": 0.25, "eval_every": 4},
}
METHODS: dict[str, dict[str, Any]] = {
    "zo_hfl": {"name": "zo_hfl", "preset": "paper", "server_lr": "inverse_sqrt(0.5)", "penalty": 2.0},
    "fedavg": {"name": "fedavg", "server_seat": False},  # the wire has none
    "scaffold": {"name": "scaffold", "server_seat": False},
}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("trial"), TABLES) as made:
        for site in made.sites:
            made.join(site)
        yield made


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name != "zo_hfl"]  # a start of a job takes its time


@pytest.mark.parametrize("name", ["zo_hfl", *OTHERS])
def test_the_wire_gives_the_models_of_the_simulation(trial: Federation, name: str, tmp_path: Path) -> None:
    wired = trial.play(trial.configure(name, {"method": METHODS[name]}), place(name))
    simulated = run_experiment(
        configuration.validate(TABLES | {"method": METHODS[name]}), tmp_path / "sim", progress=Progress()
    )
    found, wanted = model(wired), model(simulated.folder)
    assert np.linalg.norm(found - wanted) <= 1e-6 * np.linalg.norm(wanted)
    rows = [json.loads(line) for line in (wired / "metrics.jsonl").read_text().splitlines()]
    for row, other in zip(
        rows, [json.loads(line) for line in (tmp_path / "sim/metrics.jsonl").read_text().splitlines()], strict=True
    ):
        assert {key: row[key] for key in ("round", "local_steps")} == {key: other[key] for key in ("round", "local_steps")}
        assert row["global_accuracy"] == pytest.approx(other["global_accuracy"], abs=1e-6)
        assert row["personal_accuracy"]["mean"] == pytest.approx(other["personal_accuracy"]["mean"], abs=1e-6)


def place(name: str) -> str:
    """Where `serve` puts a run, and `compare` looks for it."""
    return f"runs/wire/{cell_name(configuration.validate(TABLES | {'method': METHODS[name]}))}"


def test_report_and_compare_read_runs_between_sites(trial: Federation) -> None:
    """No cell is run: it is found in the store of wired runs."""
    (trial.root / "compare.toml").write_text(tomli_w.dumps(TABLES | {"methods": [METHODS["zo_hfl"]]}))
    before = sorted(path.name for path in (trial.root / "runs/wire").iterdir())
    compared = json.loads(trial.call("compare", "compare.toml", "--store", "runs/wire", "--json"))
    assert sorted(path.name for path in (trial.root / "runs/wire").iterdir()) == before
    assert before and "zo_hfl" in json.dumps(compared)
    trial.call("report", "runs/wire", "--out", "report.html")
    assert "zo_hfl" in (trial.root / "report.html").read_text()


def test_a_finished_run_is_not_run_again(trial: Federation) -> None:
    before = (trial.root / place("zo_hfl") / "model.safetensors").stat().st_mtime_ns
    trial.play(trial.root / "data/run-zo_hfl.toml", place("zo_hfl"))
    assert (trial.root / place("zo_hfl") / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.slow
def test_status_tells_who_is_there_and_how_far_the_run_is(trial: Federation) -> None:
    run = trial.configure("long", {"method": METHODS["fedavg"], "run": {"rounds": 100_000, "eval_every": 100_000, "tau": 1.0}})
    trial.serve(run, "runs/long")

    def told() -> dict[str, Any] | None:
        try:
            found = json.loads(trial.call("status", "kits/admin", "--json"))
        except AssertionError:  # no server yet
            return None
        return found if (found["round"] or 0) > 0 else None

    found = until(told, "a round in the status")
    assert found["status"] == "RUNNING" and found["rounds"] == 100_000
    assert [site["site"] for site in found["sites"] if site["connected"] and site["job"]] == trial.sites
    trial.processes["server"].terminate()
    assert trial.processes["server"].wait(60) == 130
    assert "the same command goes on from there" in trial.said("server")


@pytest.mark.slow
def test_a_trained_model_is_measured_at_every_site_and_stays_as_it_is(trial: Federation) -> None:
    trained = trial.play(trial.configure("zo_hfl", {"method": METHODS["zo_hfl"]}), place("zo_hfl"))
    words = ("--run", "data/run-zo_hfl.toml", "--evaluate", place("zo_hfl"), "--out", "runs/measured", "--json")
    found = json.loads(trial.call("serve", "kits/server", *words))
    assert [one["site"] for one in found["sites"]] == [*trial.sites, "all"]
    assert all(one["low"] < one["score"] < one["high"] for one in found["sites"])
    last = json.loads((trained / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["server"] == pytest.approx(last["global_accuracy"])
    np.testing.assert_array_equal(model(trial.root / "runs/measured"), model(trained))
