"""Clients that never train: their rows are nowhere in training, and their own models are made for them and measured apart."""

import dataclasses
import json

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.bundle.adapt import adapt
from fedtier.experiments.label_counts import labels_of_experiment
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.reports.terminal import run_table

TOWNS = ("basel", "bern", "chur", "genf", "zug")
LINEAR = [
    "data.label=y", "data.owner=town", "data.task=regression", "data.new_clients=0.2", "data.client_test_share=0.3",
    "method.name=fedavg", "method.client_lr=0.1", "method.fine_tune=0.1",
    "run.rounds=40", "run.eval_every=40", "run.participation=1", "run.tau=5",
]  # fmt: skip


def write_lines(path, slopes, rows=60):
    """y = slope x + z, without noise; the slope is the town's own."""
    rng = np.random.default_rng(0)
    lines = ["x,z,y,town"]
    for town, slope in zip(TOWNS, slopes, strict=True):
        for x, z in rng.normal(size=(rows, 2)):
            lines.append(f"{x:.5f},{z:.5f},{slope * round(x, 5) + round(z, 5):.6f},{town}")
    path.write_text("\n".join(lines) + "\n")
    return path


def windows(experiment, s=0):
    """The rows of everyone under seed number s: test, server, training clients, newcomers."""
    index, federation, new = np.asarray(experiment.federation.index)[s], experiment.federation, experiment.new

    def rows(window):
        starts, sizes = (np.atleast_1d(np.asarray(a)[s]) for a in window)
        return [set(index[a : a + b].tolist()) for a, b in zip(starts, sizes, strict=True)]

    return [
        rows(window) for window in (federation.test, federation.server, federation.train, federation.held, new.train, new.held)
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run in which the newcomer's slope is the opposite of everybody else's, and the file of its rows."""
    home = tmp_path_factory.mktemp("alone")
    config = configuration.load_config(None, [f"data.file={write_lines(home / 'rows.csv', [2] * 5)}", *LINEAR])
    (name,) = assemble(config).new_names
    table = write_lines(home / "rows.csv", [-2 if town == name else 2 for town in TOWNS])
    result = run_experiment(config, home / "run", progress=Progress())
    first, *lines = table.read_text().splitlines()
    own = home / "own.csv"
    own.write_text("\n".join([first, *(line for line in lines if line.endswith(name))]) + "\n")
    return result, own


@pytest.mark.slow
def test_no_row_of_a_natural_newcomer_is_in_training_in_the_test_or_at_the_server(alone):
    experiment = alone[0].experiment
    owner = np.asarray(experiment.dataset.owner)
    (new,) = experiment.new_names
    number = experiment.dataset.owner_names.index(new)
    test, server, train, held, new_train, new_held = windows(experiment)
    theirs = set(np.flatnonzero(owner == number).tolist())
    assert theirs == new_train[0] | new_held[0] and not new_train[0] & new_held[0] and len(new_held[0]) == 18
    others = test[0] | server[0] | set().union(*train) | set().union(*held)
    assert others == set(range(len(owner))) - theirs
    assert experiment.client_names == tuple(town for town in TOWNS if town != new)
    assert np.mean(experiment.federation.spec.weight[0][: experiment.clients]) == pytest.approx(1)


def test_dealt_newcomers_keep_their_rows_to_themselves_and_the_preparation_does_not_see_them(tmp_path):
    table = write_lines(tmp_path / "rows.csv", [2] * 5)
    drawn = ["data.partition=iid", "data.clients=6", "data.new_clients=0.34", 'data.drop=["town"]', "run.rounds=1"]
    config = configuration.load_config(None, [f"data.file={table}", "data.label=y", "data.task=regression", *drawn])
    experiment = assemble(config)
    parts = windows(experiment)
    assert experiment.clients == 4 and len(experiment.new_names) == 2
    assert (
        sum(len(rows) for part in parts for rows in part) == len(set().union(*(rows for part in parts for rows in part))) == 300
    )
    assert set(experiment.client_names) | set(experiment.new_names) == set(map(str, range(6)))
    counted = labels_of_experiment(experiment)
    for i, rows in enumerate(train | held for train, held in zip(parts[2], parts[3], strict=True)):
        tenths = np.bincount(experiment.dataset.strata[sorted(rows)], minlength=len(counted.labels))
        np.testing.assert_array_equal(counted.clients[i], tenths)
    assert "2 new clients that never train" in counted.said[0]
    seen = np.asarray(sorted(parts[1][0] | set().union(*parts[2])))
    labels = np.asarray([float(line.split(",")[2]) for line in table.read_text().splitlines()[1:]])
    assert experiment.dataset.preparation.label.shift == pytest.approx(labels[seen].mean(), rel=1e-6)


@pytest.mark.slow
def test_the_adapted_model_of_a_client_unlike_the_others_beats_the_global_one_on_its_own_rows(alone):
    result, own = alone
    (told,) = json.loads((result.folder / "clients.json").read_text())
    new, row = told["new_clients"], result.final[0]["new_clients"]
    assert new["names"] == list(result.experiment.new_names) and new["held"] == [18]
    assert new["adapted_rmse"][0] < 0.2 * new["global_rmse"][0] and 3 < new["global_rmse"][0] < 5  # |2 - (-2)| times sd(x)
    assert row["adapted_rmse"]["mean"] == new["adapted_rmse"][0] and row["global_rmse"]["max"] == new["global_rmse"][0]
    assert any(
        "new clients, which never trained: global model rmse" in part for part in run_table(result) if isinstance(part, str)
    )
    found = adapt(Bundle.load(result.folder), own, client="new town", test_share=0.3)
    assert found.held == 18 and found.adapted_says.rmse < 0.2 * found.global_says.rmse


@pytest.mark.slow
def test_where_clients_are_alike_the_adapted_model_is_the_global_one(tmp_path):
    config = configuration.load_config(None, [f"data.file={write_lines(tmp_path / 'rows.csv', [2] * 5)}", *LINEAR])
    result = run_experiment(config, tmp_path / "run", progress=Progress())
    (told,) = json.loads((result.folder / "clients.json").read_text())
    new = told["new_clients"]
    assert new["adapted_rmse"][0] < 1e-3 and new["global_rmse"][0] < 1e-3  # no noise: both are the line itself
    bundle = Bundle.load(result.folder)
    found = adapt(bundle, tmp_path / "rows.csv", client="new")
    for ours, theirs in zip(found.bundle.personal["new"], bundle.model, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def by_method(bundle, **keys):
    """The same bundle as if another method had trained it."""
    tables = {table: dict(content) for table, content in bundle.about.tables.items()} | {"method": keys}
    return dataclasses.replace(bundle, about=bundle.about._replace(tables=tables))


@pytest.mark.slow
def test_by_a_method_with_a_lower_level_the_adapted_model_is_its_solution(alone):
    """y minimises mean 1/2 (row y - label)^2 + mu/2 |y - x|^2: a linear system."""
    result, own = alone
    bundle = Bundle.load(result.folder)
    keys = {"name": "zo_hfl", "preset": "paper", "proximity": 0.5, "batch": 4096, "client_lr": "constant(0.2)"}
    found = by_method(bundle, **keys).adapt(own, steps=200).personal["new"]
    given, label = bundle.read(own), bundle.preparation.label
    rows = np.column_stack([given.inputs, np.ones(len(given.inputs))]).astype(float)
    target = (given.truth - label.shift) * label.scale
    x = np.append(bundle.model.weight[0], bundle.model.bias[0])
    wanted = np.linalg.solve(rows.T @ rows / len(rows) + 0.5 * np.eye(3), rows.T @ target / len(rows) + 0.5 * x)
    np.testing.assert_allclose(np.append(found.weight[0], found.bias[0]), wanted, atol=0.02)
    assert np.abs(wanted - x).max() > 0.5


@pytest.mark.slow
def test_by_a_method_without_a_global_model_a_newcomer_starts_where_the_clients_did(alone):
    result, own = alone
    bundle = dataclasses.replace(Bundle.load(result.folder), model=None)
    with pytest.raises(FedtierError, match="must be named: this method has personal models alone"):
        bundle.predict(own)
    found = by_method(bundle, name="local_only", batch=60, client_lr="constant(0.2)").adapt(own, steps=300, client="new")
    assert found.predict(own, "new").rmse < 0.05


@pytest.mark.slow
def test_the_command_writes_a_bundle_that_predicts_for_the_new_client(alone, fedtier, tmp_path):
    result, own = alone
    code, out, _ = fedtier("adapt", result.folder, own, "--out", "mine", "--client", "lugano", "--json")
    told = json.loads(out)
    assert code == 0 and told["held"] == 12 and told["adapted"] < 0.2 * told["global"]
    assert Bundle.load(tmp_path / "mine").clients == ("lugano",)
    assert fedtier("predict", "mine", own, "--client", "lugano", "--out", "said.csv")[0] == 0
    assert fedtier("adapt", result.folder, own, "--out", "mine")[0] == 2
    assert "rows held back: global" in fedtier("adapt", result.folder, own, "--out", "again")[1]


@pytest.mark.slow
def test_rows_without_labels_and_newcomers_that_leave_nobody_are_refused(alone, tmp_path):
    result, own = alone
    with pytest.raises(FedtierError, match="must have the label y in every row"):
        adapt(Bundle.load(result.folder), {"x": np.zeros(3), "z": np.ones(3)})
    with pytest.raises(FedtierError, match="is 0 of 5 clients"):
        assemble(configuration.load_config(None, [f"data.file={own.parent / 'rows.csv'}", *LINEAR, "data.new_clients=0.05"]))
    with pytest.raises(FedtierError, match="must be one number where there are new clients"):
        configuration.load_config(None, ["data.clients=2", "data.new_clients=0.5", "run.tau=[1, 2]"])
    with pytest.raises(FedtierError, match="a new client's model is judged by labels"):
        configuration.load_config(None, ["data.name=quadratic", "data.new_clients=0.5"])
