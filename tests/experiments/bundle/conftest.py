"""Small runs whose bundles the tests take away: a table with words and gaps, and images."""

import jax
import numpy as np
import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.methods.method import turn_of

TOWNS = ("bern", "chur", "zurich")
SHORT = ["run.rounds=4", "run.eval_every=4", "run.tau=2", "run.participation=1", "data.client_test_share=0.3"]


def write_patients(path, rows=240, seed=0):
    """age and dose with gaps, a ward in words, the outcome, and the town whose row it is; the towns' wards differ."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50, 10, rows), rng.normal(0, 1, rows)
    town, ward = rng.integers(0, 3, rows), rng.integers(0, 3, rows)
    sick = (age - 50) / 10 + dose * (town - 1) + 0.5 * (ward == 1) + 0.3 * rng.normal(size=rows) > 0
    lines = ["age,dose,ward,outcome,town"]
    for k in range(rows):
        gap = "" if k % 17 == 0 else f"{dose[k]:.4f}"
        lines.append(f"{age[k]:.3f},{gap},{'abc'[ward[k]] if k % 23 else '?'},{'sick' if sick[k] else 'well'},{TOWNS[town[k]]}")
    path.write_text("\n".join(lines) + "\n")
    return path


def held_back(result, s, i):
    """The numbers of the rows that client i holds back under seed number s."""
    federation = result.experiment.federation
    start, size = (int(a[s, i]) for a in federation.held)
    return np.asarray(federation.index)[s, start : start + size]


def personal_model(result, s, i):
    """The personal model of client i, computed one client at a time."""
    experiment = result.experiment
    federation = experiment.federation
    one = jax.tree.map(lambda a: a[s], federation._replace(arrays=()))._replace(arrays=federation.arrays)
    take = lambda tree: jax.tree.map(lambda a: a[i], tree)  # noqa: E731
    x = experiment.method.global_model(jax.tree.map(lambda a: a[s], result.state.server))
    client = jax.tree.map(lambda a: a[s, i], result.state.clients)
    rounds = experiment.config.run.rounds
    turn = turn_of(rounds, i, int(experiment.steps[rounds, i]), experiment.key[s])
    personal = jax.jit(experiment.method.personal_model)
    return personal(client, x, one.view(take(one.train)), take(one.spec), turn), x


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """finished(name, *settings) -> the Result of a run, made once; `name` is "table" or "images"."""
    home = tmp_path_factory.mktemp("bundles")
    table = write_patients(home / "patients.csv")
    words = {
        "table": [f"data.file={table}", "data.label=outcome", "data.owner=town", "data.server_share=0.2", *SHORT],
        "images": ["data.clients=3", "data.alpha=1", *SHORT],
    }
    made = {}

    def run(name, *settings):
        if (name, settings) not in made:
            config = configuration.load_config(None, [*words[name], *settings])
            made[name, settings] = run_experiment(config, home / f"run-{len(made)}", progress=Progress())
        return made[name, settings]

    return run
