"""Masked sums over NVIDIA FLARE: the model of plain replies, whoever is killed at which stage, and what it costs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .federation import federation, model, rounds_done, until

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 6, "participation": 1.0, "tau": [1.0, 2.0, 3.0], "eval_every": 6},
    "method": {"name": "fedavg"},
}
KINDS = "CARD SHARES ROUND UNMASK"
STEP = 2.0**-25  # range 16, three sites


def last_row(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.mark.flare
def test_masked_rounds_give_the_model_of_plain_ones_though_a_solver_dies_at_every_stage(tmp_path: Path) -> None:
    """One site's solver is killed before it answers the first letter of each kind; it is started again and says the same."""
    path = [str(Path(__file__).with_name("hooks")), *filter(None, [os.environ.get("PYTHONPATH")])]
    hooks = {"DYING_SOLVER": KINDS, "PYTHONPATH": os.pathsep.join(path)}
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site, hooks if site == "site-1" else {})
        plain, masked = (
            made.play(made.configure(name, {"method": TABLES["method"]}, quorum=1.0, masked=name == "masked"), f"runs/{name}")
            for name in ("plain", "masked")
        )
        assert np.abs(model(masked) - model(plain)).max() <= 6 * STEP
        told = json.loads((masked / "sites.json").read_text())["sites"]
        assert all(site["counted"] == 6 for site in told.values())
        record = [json.loads(line) for line in (masked / "record.jsonl").read_text().splitlines()]
        assert {line["kind"] for line in record if line["way"] == "out"} >= set(KINDS.split())
        assert last_row(masked)["bytes_up"] > last_row(plain)["bytes_up"]


@pytest.mark.flare
@pytest.mark.slow
def test_a_masked_run_goes_on_without_a_site_that_is_killed_and_takes_it_back(tmp_path: Path) -> None:
    """Threshold 2 of 3. The whole site dies, then the server; no round is ever a wrong sum: the model ends where it should."""
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        changes = {"method": TABLES["method"], "run": {"rounds": 60, "eval_every": 60}}
        run = made.configure("masked", changes, masked=True, deadline=5.0, quorum=0.5)
        folder = made.root / "runs/masked"
        made.serve(run, "runs/masked")
        for number, place in ((5, "state/site-1"), (20, "runs/masked"), (35, "state/site-2")):
            until(lambda number=number: rounds_done(folder) >= number, f"round {number}")
            for process in made.marked(place):
                process.send_signal(signal.SIGKILL)
        assert made.processes["server"].wait(600) == 0, made.said("server")
        calm = made.play(made.configure("calm", changes, quorum=1.0), "runs/calm")
        found, wanted = last_row(folder)["global_accuracy"], last_row(calm)["global_accuracy"]
        assert found == pytest.approx(wanted, abs=0.05)
        assert np.linalg.norm(model(folder) - model(calm)) < 0.5 * np.linalg.norm(model(calm))
