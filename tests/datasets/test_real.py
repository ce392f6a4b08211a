"""The real sets, from FEDTIER_DATA: `pytest -m data`. Missing files fail; they are not skipped."""

from __future__ import annotations

import hashlib
import os
import time

import numpy as np
import pytest

from fedtier.datasets import heart, images, load
from fedtier.datasets.formats import _content
from fedtier.datasets.sources import locate

pytestmark = pytest.mark.data


@pytest.fixture(autouse=True)
def _folder():
    assert os.environ.get("FEDTIER_DATA"), "set FEDTIER_DATA to the folder with the published files"


@pytest.mark.parametrize("published", [images.MNIST, images.FASHION, images.CIFAR10, heart.HEART], ids=lambda one: one.name)
def test_every_file_has_the_published_content(published):
    for name, path in locate(published).items():
        assert hashlib.sha256(_content(path)).hexdigest() == published.files[name], path


EXPECTED = {  # rows, test rows, shape, smallest class, largest class, seconds
    "mnist": (70_000, 10_000, (1, 28, 28), 6_313, 7_877, 2.0),
    "fashion-mnist": (70_000, 10_000, (1, 28, 28), 7_000, 7_000, 2.0),
    "cifar10": (60_000, 10_000, (3, 32, 32), 6_000, 6_000, 5.0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_image_set_has_its_counts_and_loads_in_time(name):
    rows, test_rows, shape, smallest, largest, seconds = EXPECTED[name]
    load(name)  # once for the disk's sake
    start = time.process_time()  # a busy machine must not fail this
    data = load(name)
    assert time.process_time() - start < seconds
    assert (data.rows, data.test_rows, data.shape) == (rows, test_rows, shape)
    assert data.inputs.dtype == np.uint8 and data.inputs.base is None and data.labels.dtype == np.int32
    counts = np.bincount(data.labels, minlength=10)
    assert len(counts) == data.classes == 10 and (counts.min(), counts.max()) == (smallest, largest)
    axes = (0, 2, 3) if shape[0] == 3 else None
    train = data.inputs[: rows - test_rows]
    np.testing.assert_allclose(np.reshape(data.shift, -1), train.mean(axes, np.float64), rtol=1e-6)
    np.testing.assert_allclose(1 / np.reshape(data.scale, -1), train.std(axes, np.float64), rtol=1e-6)


def test_the_publisher_s_order_of_labels_is_kept():
    firsts = {"mnist": ([5, 0, 4, 1, 9], [7, 2, 1, 0, 4]), "fashion-mnist": ([9, 0, 0, 3, 0], [9, 2, 1, 1, 6])}
    for name, (train, test) in (firsts | {"cifar10": ([6, 9, 9, 4, 1], [3, 8, 8, 0, 6])}).items():
        data = load(name)
        assert data.labels[:5].tolist() == train and data.labels[-data.test_rows :][:5].tolist() == test


def test_heart_disease_has_the_patients_of_the_documentation():
    data = load("heart-disease")
    assert data.rows == 920 and np.bincount(data.owner).tolist() == [303, 294, 123, 200]
    diseased = np.bincount(data.owner, weights=data.labels).tolist()
    assert diseased == [139, 106, 115, 149]  # heart-disease.names: rows of num = 1 to 4
    columns = {name: data.raw.rows.columns[name] for name in ("chol", "trestbps", "ca")}
    gaps = {name: int(np.isnan(values).sum()) for name, values in columns.items()}
    assert gaps == {"chol": 30 + 172, "trestbps": 59 + 1, "ca": 611}
    assert np.isnan(columns["chol"][data.owner == 2]).all()  # the Swiss measured none
    prepared = data.prepared([np.arange(data.rows)])
    assert np.isfinite(prepared.inputs).all() and any("chol" in name and "missing" in name for name in prepared.columns)
