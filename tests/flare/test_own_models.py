"""Sites with models of their own over FLARE: one is killed on the way, and the numbers are those of the simulation."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

from ..small_runs import metrics
from .federation import federation, model, rounds_done, until

pytestmark = [pytest.mark.flare, pytest.mark.slow]

TABLES: dict[str, Any] = {
    "data": {"name": "synthetic", "clients": 2, "partition": "dirichlet", "alpha": 1.0, "client_test_share": 0.3},
    "run": {"rounds": 12, "participation": 1.0, "tau": 1.0, "eval_every": 12},
    "method": {"name": "codistil", "public_rows": 20, "server_steps": 2},
    "clients": {"models": ["sklearn:GaussianNB", "jax:softmax(epochs=1)"]},
}


def test_a_site_with_a_model_of_its_own_is_killed_and_the_numbers_are_those_of_the_simulation(tmp_path: Path) -> None:
    simulated = run_experiment(configuration.validate(TABLES), tmp_path / "sim", progress=Progress())
    with federation(tmp_path / "wire", TABLES) as made:
        for site in made.sites:
            made.join(site)
        run = made.configure("run", {"method": TABLES["method"]}, quorum=1.0, deadline=20.0)
        made.serve(run, "runs/own")
        folder = made.root / "runs/own"
        until(lambda: rounds_done(folder) >= 3, "round 3")
        solvers = [one for one in made.marked("state/site-1") if "fedtier.deploy.site" in one.cmdline()]
        for process in solvers:
            process.send_signal(signal.SIGKILL)
        assert solvers and made.processes["server"].wait(600) == 0, made.said("server")
        np.testing.assert_allclose(model(folder), model(simulated.folder), rtol=1e-5, atol=1e-7)
        assert metrics(folder)[-1]["by_client"]["personal"] == metrics(simulated.folder)[-1]["by_client"]["personal"]
