"""The study of sites with models of their own: what its tables say of given numbers, and that its file is a configuration."""

import tomllib
from importlib import resources

import numpy as np
import pytest

from fedtier.studies.own_models import reproduce
from fedtier.studies.own_models.frequencies import weighted
from fedtier.studies.own_models.reproduce import Told, by_site, grid, sentences

FILE = resources.files("fedtier.studies.own_models") / "own-models.toml"


def config_of(row):
    tables = tomllib.loads(FILE.read_text())
    tables["clients"]["models"] = ["jax:softmax"]  # the test needs no PyTorch
    rows = tables.pop("rows")
    tables.pop("quick")
    return reproduce._config(tables, rows[row], 1000, [])


def test_only_the_row_in_which_sites_choose_keeps_rows_back():
    assert [config_of(row).run.personal_check for row in range(6)] == [0, 0, 0.2, 0, 0, 0]
    assert config_of(2).method.options["public_labels"] == "none" and not config_of(5).clients.models


def test_gains_are_of_the_same_seeds_and_harm_is_counted_and_named():
    config = config_of(2)
    personal = np.asarray([[0.8, 0.9, 0.7, 0.6], [0.8, 0.9, 0.7, 0.5]])
    alone = Told("each alone", config, np.asarray([0.70, 0.74]), personal, personal, 100.0)
    gains = np.asarray([[0.01, 0.0, -0.02, 0.1], [0.01, 0.0, 0.03, 0.1]])
    shares = np.asarray([[0.1, 0.0, 0.3, 0.2], [0.0, 0.0, 0.0, 0.2]])
    taught = Told("taught", config, np.asarray([0.75, 0.80]), personal + gains, personal - gains, 41_234.0, shares)
    nobody = Told("FedMD", config, None, personal, personal, 100.0)
    rows = grid([alone, taught, nobody]).rows
    assert (
        rows[0][2] == "" and rows[1][2].startswith("+5.5") and rows[1][4].startswith("64.0") and rows[1][5].startswith("+9.0")
    )
    assert rows[1][-1] == "41,234" and rows[2][1] == "none"
    first, second = sentences([alone, taught, nobody])
    assert "taught: 1 of 8 personal models are worse than their site alone, 5 better (-2.0 to +10.0)" in first
    assert "4 sites let the global model's word count beside their own, 0.20 on average" in first
    assert "hold back: 5 of 8 personal models are worse than their site alone, 1 better (-10.0 to +2.0)" in first
    assert "0 of 8" in second and "word" not in second
    assert by_site([alone, taught]).headings[1:] == ["jax:softmax"]


def test_each_class_counts_as_often_as_the_site_has_it():
    """Of class 0 one of two rows is right, of class 1 all, of class 2 none; the site has three rows of 0, one of 1."""
    labels, right = np.asarray([0, 0, 1, 1, 1, 2]), np.asarray([True, False, True, True, True, False])
    assert weighted(right, labels, np.asarray([0, 0, 0, 1])) == pytest.approx(0.75 * 0.5 + 0.25 * 1.0)
    assert weighted(right, labels, np.asarray([1, 3])) == 1.0  # nobody knows how good it is on class 3
