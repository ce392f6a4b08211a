"""Partition pictures: the numbers add up, and are those of the run itself."""

import json

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import label_counts
from fedtier.experiments.assemble import assemble
from fedtier.reports import plots

from ..small_runs import SHORT, options

DIGITS = 1797  # rows of scikit-learn's digits


@pytest.mark.parametrize("kind", ["dirichlet", "iid", "classes", "quantity"])
def test_every_row_is_counted_once(kind):
    alpha = ["data.alpha=1"] if kind in ("dirichlet", "quantity") else []
    counts = label_counts.count_labels(configuration.load_config(None, [f"data.partition={kind}", *alpha]))
    assert counts.clients.shape == (10, 10) and counts.clients.sum() + counts.server.sum() + counts.test.sum() == DIGITS
    assert counts.test.sum() == round(0.1 * DIGITS) and np.all(counts.held < counts.clients.sum(axis=1))
    if kind == "classes":
        assert np.all((counts.clients > 0).sum(axis=1) <= 4)  # two shards, each cut through at most one border of classes


def test_what_is_drawn_is_what_a_run_gets_with_and_without_a_seat_for_the_server():
    for settings in (["run.seed=3"], ["run.seed=3", "method.name=fedavg", "method.server_seat=true"]):
        config = configuration.load_config(None, settings)
        drawn, used = label_counts.count_labels(config), label_counts.labels_of_experiment(assemble(config))
        assert json.dumps(drawn.as_object()) == json.dumps(used.as_object())


def test_a_run_stores_its_census(cells):
    for file in cells.glob("*/partition.json"):
        stored = label_counts.LabelCounts.from_object(json.loads(file.read_text()))
        assert stored.clients.shape[0] == 4 and stored.clients.sum() > 0


@pytest.mark.slow
def test_the_command_prints_the_numbers_and_draws_the_picture(fedtier, tmp_path):
    for ending, magic in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        code, out, err = fedtier("partition", *options(["data.alpha=1"]), "--out", f"p.{ending}", "--json")
        assert code == 0 and (tmp_path / f"p.{ending}").read_bytes().startswith(magic) and f"p.{ending}" in err
    content = json.loads(out)
    assert sum(map(sum, content["clients"])) + sum(content["server"]) + sum(content["test"]) == DIGITS
    code, out, err = fedtier("partition", *options(SHORT))
    assert code == 0 and len(err.splitlines()) == 1 and out.splitlines()[-2].startswith("│ test")
    code, out, err = fedtier("partition", "--out", "p.jpeg")
    assert code == 2 and out == "" and ".svg" in err and not (tmp_path / "p.jpeg").exists()
    (tmp_path / "file").touch()
    code, out, err = fedtier("partition", "--out", "file/p.svg")
    assert code == 2 and out == "" and "cannot be written" in err


def test_many_clients_are_a_shaded_grid_and_the_same_picture_has_the_same_bytes(tmp_path):
    counts = label_counts.count_labels(configuration.load_config(None, ["data.clients=60", "data.alpha=10"]))
    for name in ("a.svg", "b.svg"):
        plots.save(plots.partition_figure(counts), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"60 clients" in (tmp_path / "a.svg").read_bytes()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (["data.alpha=1e-6", "data.clients=200"], "data.clients"),
        (["data.partition=classes", "data.clients=2000"], "data.clients"),
        (["data.partition=natural", "data.name=synthetic", "run.tau=[1, 2, 3]"], "run.tau"),
    ],
)
def test_what_the_federation_refuses_is_told_by_the_key_of_the_configuration(settings, name):
    with pytest.raises(FedtierError) as caught:
        assemble(configuration.load_config(None, settings))
    assert caught.value.name == name
