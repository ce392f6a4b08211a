"""A federation that only measures a given model: its scores on each site's held-back rows, and no training."""

import json

import numpy as np
import pytest

from fedtier.deploy.evaluation import evaluation_file
from fedtier.deploy.server import serve_rounds
from fedtier.errors import FedtierError
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.run import run_experiment
from fedtier.protocol import loopback
from fedtier.reports.evaluation import evaluation_table, measured, wilson

from .test_wire import CLIENTS, QUIET, model, setup, sites


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A trained model, the federation it is measured at, and what came of it; site 3 tells nothing."""
    folder = tmp_path_factory.mktemp("evaluated")
    config = setup(folder, "method.name=fedavg", "run.rounds=3", "method.server_seat=false")
    run_experiment(config, folder / "trained", progress=QUIET)
    silent = folder / "fed" / "site-3.toml"
    silent.write_text(silent.read_text() + "share_scores = false\n")
    file = evaluation_file(folder / "fed" / "run.toml", folder / "trained", folder / "out")
    ask = loopback({name: site.answer for name, site in sites(folder / "fed").items()})
    serve_rounds(file, folder / "out", ask, progress=QUIET)
    return folder


@pytest.mark.slow
def test_each_site_tells_how_good_the_model_is_on_its_held_back_rows(place):
    bundle, found = Bundle.load(place / "trained"), measured(place / "out")
    assert [one.site for one in found] == [f"site-{k}" for k in range(CLIENTS)]
    for k, one in enumerate(found[:3]):
        table = np.load(place / "fed" / f"site-{k}.npz", allow_pickle=False)
        inputs, labels = table["inputs"][-one.rows :], table["labels"][-one.rows :]
        right = np.mean(bundle.predict(inputs).values.astype(str) == labels.astype(str))
        assert one.score == pytest.approx(right, abs=1e-4)
        assert one.low < one.score < one.high or one.score in (0.0, 1.0)
    assert found[3].rows > 0 and found[3].score is None
    shown = evaluation_table(found, 0.5)
    assert shown[0].row_count == CLIENTS and "50.00 %" in shown[1]


@pytest.mark.slow
def test_nothing_is_trained_and_the_model_is_at_every_site_afterwards(place):
    np.testing.assert_array_equal(model(place / "out"), model(place / "trained"))
    row = json.loads((place / "out" / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["round"] == 0 and row["local_steps"] == 0
    wanted = Bundle.load(place / "trained").model.weight
    np.testing.assert_array_equal(Bundle.load(place / "fed" / "state" / "0").model.weight, wanted)
    np.testing.assert_array_equal(Bundle.load(place / "fed" / "state" / "0").personal["site-0"].weight, wanted)


@pytest.mark.slow
def test_a_model_of_other_shapes_is_refused_before_anyone_is_asked(place, tmp_path):
    setup(tmp_path, "method.name=fedavg", "data.features=7")
    file = evaluation_file(tmp_path / "fed" / "run.toml", place / "trained", tmp_path / "out")
    with pytest.raises(FedtierError, match="shape"):
        serve_rounds(file, tmp_path / "out", loopback({}), progress=QUIET)


def test_wilson_s_interval_has_the_values_of_the_textbook():
    assert wilson(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
