"""Clustered methods in whole runs: what a run writes, and who gets which model."""

import jax
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.metrics import traffic
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

from ...small_runs import SHORT

pytestmark = pytest.mark.slow  # whole runs
SPLITS = ["method.split_after=1", "method.split_mean=100", "method.split_longest=0"]


def finished(folder, name, *settings):
    config = configuration.load_config(None, [*SHORT, f"method.name={name}", "run.seeds=2", *settings])
    return run_experiment(config, folder / name, progress=Progress())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("clustered")
    return {name: finished(home, name, *more) for name, more in {"ifca": ["data.new_clients=0.25"], "cfl": SPLITS}.items()}


@pytest.mark.parametrize("name", ["ifca", "cfl"])
@pytest.mark.checked
def test_a_bundle_has_the_models_of_every_seed(runs, name):
    """The state of a run has a leading axis for the seeds, which a method that chooses among models must not see."""
    experiment, state = runs[name].experiment, runs[name].state
    server = state.server
    if name == "ifca":
        largest = np.asarray(server.chosen)
    else:
        largest = [np.bincount(np.asarray(c)[np.asarray(heard)]) for c, heard in zip(server.cluster, server.heard, strict=True)]
        assert min(map(len, largest)) > 1  # some cluster has split
    for s, seed in enumerate((0, 1)):
        bundle = Bundle.load(runs[name].folder, seed)
        wanted = np.asarray(state.server.x.weight)[s, np.argmax(largest[s])]
        np.testing.assert_array_equal(np.asarray(bundle.model.weight), wanted)
        assert set(bundle.clients) == set(experiment.client_names)


def test_the_download_of_ifca_grows_with_the_number_of_models(runs):
    n = sum(leaf[0].size for leaf in jax.tree.leaves(runs["ifca"].experiment.x))
    down = {name: traffic(runs[name].experiment, runs[name].state).down for name in runs}
    assert down["ifca"] - down["cfl"] == pytest.approx(4 * n, abs=200)  # two models against one, in float32


def test_a_newcomer_of_ifca_chooses_among_all_models_in_the_run_but_a_bundle_cannot_offer_them(runs):
    assert runs["ifca"].final[0]["new_clients"]["adapted_accuracy"]["mean"] > 0.5
    bundle = Bundle.load(runs["ifca"].folder)
    label = bundle.preparation.label
    rows = {f"x{k}": np.zeros(4) for k in range(16)} | {label.name: [label.classes[0]] * 4}
    with pytest.raises(FedtierError, match="more for a newcomer than the global model"):
        bundle.adapt(rows)
