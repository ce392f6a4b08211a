"""Sites with models of their own over FLARE: all are killed on the way, and the numbers are those of the simulation."""

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
    "data": {"name": "digits", "clients": 4, "alpha": 1.0, "client_test_share": 0.3},
    "run": {"rounds": 8, "participation": 1.0, "tau": 1.0, "eval_every": 8, "personal_check": 0.5},
    "method": {"name": "codistil", "public_rows": 20, "server_steps": 2},
    "clients": {
        "models": [
            "sklearn:RandomForestClassifier(n_estimators=3)",
            "sklearn:GradientBoostingClassifier(n_estimators=2, max_depth=2, max_features=8)",
            "torch:cnn(epochs=1)",
            "jax:mlp(hidden=8, epochs=1)",
        ]
    },
}


def test_four_kinds_of_models_are_killed_on_the_way_and_the_numbers_are_those_of_the_simulation(tmp_path: Path) -> None:
    simulated = run_experiment(configuration.validate(TABLES), tmp_path / "sim", progress=Progress())
    with federation(tmp_path / "wire", TABLES) as made:
        for site in made.sites:
            made.join(site)
        run = made.configure("run", {"method": TABLES["method"]}, quorum=1.0, deadline=60.0)
        made.serve(run, "runs/own")
        folder = made.root / "runs/own"
        for k, site in enumerate(made.sites):
            until(lambda k=k: rounds_done(folder) >= 1 + k, f"round {1 + k}")
            solvers = made.marked(f"state/{site}", "fedtier.deploy.site")
            for process in solvers:
                process.send_signal(signal.SIGKILL)
            assert solvers, site
        assert made.processes["server"].wait(600) == 0, made.said("server")
        np.testing.assert_allclose(model(folder), model(simulated.folder), rtol=1e-5, atol=1e-7)
        assert metrics(folder)[-1]["by_client"]["personal"] == metrics(simulated.folder)[-1]["by_client"]["personal"]
