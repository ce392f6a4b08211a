"""Fed-Heart-Disease: which patients, which columns, which scale, and who has them."""

import numpy as np
import pytest

from fedtier.datasets import load
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.data import load_data, split

from . import layouts

GAP_IN_CA = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,?,6.0,0"
GAP_IN_CHOL = "63.0,1.0,1.0,145.0,?,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0"


@pytest.fixture
def folder(tmp_path):
    layouts.write_heart(tmp_path, {"va": [GAP_IN_CA, GAP_IN_CHOL]})
    return tmp_path


def config_of(folder, **data):
    return configuration.validate({"data": {"name": "fed-heart-disease", "folder": str(folder)} | data})


def test_a_gap_matters_in_the_columns_that_are_used_alone(folder):
    """Line 2 of va lacks its cholesterol and goes, line 1 lacks ca, which is left out, and stays."""
    data = load("fed-heart-disease", folder=folder)
    patients = len(data.labels) // 2
    assert patients == sum(layouts.HOSPITALS.values()) - 1
    assert np.bincount(data.owner[:patients]).tolist() == [303, 294, 123, 199]


def test_each_hospital_keeps_two_thirds_to_train_on_and_no_patient_is_on_both_sides(folder):
    parts = load("fed-heart-disease", folder=folder).split
    for rows, train, held in zip((303, 294, 123, 199), parts.train, parts.held, strict=True):
        assert len(train) == int(0.66 * rows) and len(train) + len(held) == rows
        assert not set(train) & set(held)


def test_inputs_are_scaled_by_the_training_rows_of_the_hospital_and_of_all(folder):
    data = load("fed-heart-disease", folder=folder)
    patients = len(data.labels) // 2
    ages = [float(line.split(",")[0]) for name in layouts.HOSPITALS for line in _lines(folder, name) if line != GAP_IN_CHOL]
    age = np.asarray(ages)
    for train, held in zip(data.split.train, data.split.held, strict=True):
        mean, deviation = age[train].mean(), age[train].std(ddof=1)
        for rows in (train, held):
            np.testing.assert_allclose(data.inputs[rows, 0], (age[rows] - mean) / deviation, atol=1e-5)
    everyone = age[np.concatenate(data.split.train)]
    wanted = (age - everyone.mean()) / everyone.std(ddof=1)
    np.testing.assert_allclose(data.inputs[patients:, 0], wanted, atol=1e-5)
    assert data.inputs.shape == (2 * patients, 13) and len(data.columns) == 13


def test_a_column_that_does_not_vary_is_zero_and_not_infinite(folder):
    data = load("fed-heart-disease", folder=folder)
    blood_pressure = data.inputs[data.split.train[0], 2]  # 130 in every line of Cleveland
    assert np.all(blood_pressure == 0)


def test_the_server_has_no_rows_unless_it_is_given_a_copy(folder):
    none, one, everyone = (load("fed-heart-disease", folder=folder, server_copy=name) for name in (None, "va", "all"))
    assert len(none.split.server) == 0
    assert one.split.server.tolist() == one.split.train[3].tolist()
    patients = len(everyone.labels) // 2
    assert everyone.split.server.tolist() == (np.concatenate(everyone.split.train) + patients).tolist()
    assert len({data.digest() for data in (none, one, everyone)}) == 3
    with pytest.raises(FedtierError, match="server_copy"):
        load("fed-heart-disease", folder=folder, server_copy="geneva")


def test_a_federation_of_it_has_the_publishers_windows_whatever_the_seed(folder):
    config = config_of(folder, server_copy="hungarian")
    data = load_data(config)
    for seed in (0, 1):
        found = split(config, data, data.labels, np.random.default_rng(seed))
        index = np.asarray(found.index)

        def rows(window, index=index):
            return index[int(window.start) : int(window.start) + int(window.size)].tolist()

        assert rows(found.test) == data.split.test.tolist() and rows(found.server) == data.split.train[1].tolist()
        for i in range(4):
            window = type(found.train)(found.train.start[i], found.train.size[i])
            held = type(found.train)(found.held.start[i], found.held.size[i])
            assert rows(window) == data.split.train[i].tolist() and rows(held) == data.split.held[i].tolist()
        sizes = np.asarray([len(part) for part in data.split.train])
        np.testing.assert_allclose(np.asarray(found.spec.weight), sizes / sizes.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("key", "value"),
    [("test_share", 0.3), ("client_test_share", 0.5), ("server_share", 0.1), ("test_seed", 1), ("partition", "iid")],
)
def test_keys_that_would_draw_rows_are_refused(folder, key, value):
    with pytest.raises(FedtierError, match=f"data.{key}"):
        config_of(folder, **{key: value})


@pytest.mark.data
def test_the_real_files_give_the_published_numbers_of_patients():
    data = load("fed-heart-disease")
    assert len(data.labels) // 2 == 740
    assert [len(rows) for rows in data.split.train] == [199, 172, 30, 85]
    assert [len(rows) for rows in data.split.held] == [104, 89, 16, 45]
    assert len(data.split.test) == 254 and np.isfinite(data.inputs).all()


def _lines(folder, name):
    return (folder / f"processed.{name}.data").read_text().split()
