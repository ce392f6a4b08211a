"""Sets by name, from folders in the publishers' layouts."""

from __future__ import annotations

import errno
import gzip
import hashlib
import pathlib

import numpy as np
import pytest

from fedtier.datasets import NAMES, OPTIONS, formats, images, load
from fedtier.errors import FedtierError

from . import layouts


def test_digits_is_the_default_and_needs_no_files():
    data = load()
    assert data.name == "digits" and data.inputs.shape == (1797, 1, 8, 8) and data.inputs.dtype == np.uint8
    assert data.inputs.max() == 16 and data.classes == 10 and data.clients == 0
    seen = data.model_inputs()
    assert seen.dtype == np.float32 and abs(seen.mean()) < 1e-5 and abs(seen.std() - 1) < 1e-5


def test_an_unknown_name_gets_the_nearest_known_one():
    with pytest.raises(FedtierError, match="did you mean 'fashion-mnist'"):
        load("fashion_mnist")
    assert set(NAMES) == set(OPTIONS)


def test_an_option_of_another_set_is_refused_but_a_folder_may_always_stand(tmp_path):
    assert load("digits", folder=tmp_path).rows == 1797
    with pytest.raises(FedtierError, match=r"clients = 3: is not an option of digits\n.*synthetic, quadratic"):
        load("digits", clients=3)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["", "mnist"])
def test_idx_files_are_read_with_or_without_gzip_in_the_folder_or_below(tmp_path, packed, place):
    train, train_labels, test, test_labels = layouts.write_idx(tmp_path / place, packed)
    data = load("mnist", folder=tmp_path)
    np.testing.assert_array_equal(data.inputs[:, 0], np.concatenate([train, test]))
    np.testing.assert_array_equal(data.labels, np.concatenate([train_labels, test_labels]))
    assert (data.test_rows, data.shape, data.labels.dtype, data.inputs.dtype) == (10, (1, 28, 28), np.int32, np.uint8)


def test_the_environment_names_the_folder_when_the_argument_does_not(tmp_path, monkeypatch):
    layouts.write_idx(tmp_path / "fashion-mnist")
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path))
    assert load("fashion-mnist").label_names[9] == "Ankle boot"
    with pytest.raises(FedtierError, match=r"^folder = "):
        load("fashion-mnist", folder=tmp_path / "elsewhere")


def test_a_missing_file_is_named_with_both_settings_and_nothing_is_downloaded(tmp_path):
    layouts.write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FedtierError) as caught:
        load("mnist", folder=tmp_path)
    text = str(caught.value)
    assert "holds no t10k-labels-idx1-ubyte for mnist" in text and "FEDTIER_DATA or `folder`" in text
    assert "holds no train" not in text


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    layouts.write_idx(tmp_path)

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    with pytest.raises(FedtierError, match=r"train-labels-idx1-ubyte.gz'?: cannot be read \(Permission denied\)"):
        load("mnist", folder=tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_an_image_file_cut_in_half_is_named_with_the_size_it_should_have(tmp_path, packed):
    layouts.write_idx(tmp_path, packed)
    path = tmp_path / ("train-images-idx3-ubyte" + ".gz" * packed)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FedtierError, match=r"train-images-idx3-ubyte.*is cut short: 23,536 bytes.*expected"):
        load("mnist", folder=tmp_path)


def test_files_that_are_too_long_empty_or_of_another_kind_are_refused(tmp_path):
    layouts.write_idx(tmp_path, packed=False)
    path = tmp_path / "train-labels-idx1-ubyte"
    whole = path.read_bytes()
    for content, message in ((whole + b"1", "is too long"), (b"", "is cut short"), (b"GIF89a" * 9, "must be an IDX file")):
        path.write_bytes(content)
        with pytest.raises(FedtierError, match=message):
            load("mnist", folder=tmp_path)
    path.unlink()
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"not gzip at all")
    with pytest.raises(FedtierError, match="is not an intact gzip file"):
        load("mnist", folder=tmp_path)


def test_images_and_labels_of_different_number_are_refused(tmp_path):
    layouts.write_idx(tmp_path)
    fewer = layouts.idx_bytes(np.zeros(29, np.uint8))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(fewer))
    with pytest.raises(FedtierError, match="must be 29 images of 28x28, one per label"):
        load("mnist", folder=tmp_path)


def test_one_set_s_files_are_not_taken_for_the_other_s(tmp_path, monkeypatch):
    arrays = layouts.write_idx(tmp_path)
    known = hashlib.sha256(layouts.idx_bytes(arrays[1])).hexdigest()
    monkeypatch.setitem(images.IDX_SHA256, "mnist", (known,))
    assert load("mnist", folder=tmp_path).rows == 40
    with pytest.raises(FedtierError, match=r"the labels of mnist.*\n.*sub-folder"):
        load("fashion-mnist", folder=tmp_path)


@pytest.mark.parametrize("place", ["", "cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin"])
def test_cifar_s_binary_version_is_read_plane_by_plane(tmp_path, monkeypatch, place):
    monkeypatch.setattr(formats, "CIFAR_RECORDS", 5)
    labels, pixels = layouts.write_cifar(tmp_path / place, 5)
    data = load("cifar10", folder=tmp_path)
    np.testing.assert_array_equal(data.inputs, pixels)
    np.testing.assert_array_equal(data.labels, labels)
    assert data.test_rows == 5 and data.shape == (3, 32, 32) and data.label_names[3] == "cat"
    expected = (pixels[7, 1, 4, 9] / 255 - 0.4822) / 0.2435  # the usual constants of the green channel
    assert abs(data.model_inputs(7)[1, 4, 9] - expected) < 1e-2


def test_a_cifar_file_cut_between_records_is_refused_too(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CIFAR_RECORDS", 4)
    layouts.write_cifar(tmp_path, 4)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    with pytest.raises(FedtierError, match=r"data_batch_3.bin = '6,146 bytes': is cut short: 12,292 bytes expected"):
        load("cifar10", folder=tmp_path)


def test_heart_disease_has_four_hospitals_as_clients(tmp_path):
    layouts.write_heart(tmp_path / "heart-disease")
    data = load("heart-disease", folder=tmp_path)
    assert data.owner_names == ("cleveland", "hungarian", "switzerland", "va") and data.clients == 4
    assert np.bincount(data.owner).tolist() == [303, 294, 123, 200]
    assert data.labels[:5].tolist() == [0, 1, 1, 1, 1]  # num = 0, 1, 2, 3, 4
    assert not any("missing" in name for name in data.columns)


def test_missing_measurements_become_the_median_of_the_training_rows_and_an_indicator(tmp_path):
    first = "50,1,2,0,0,?,?,150,1,1.5,?,?,?,3"
    layouts.write_heart(tmp_path, {"switzerland": [first]})
    at = 303 + 294
    everyone, others = np.arange(920), np.flatnonzero(np.arange(920) != at)
    data = load("heart-disease", folder=tmp_path).prepared([everyone, others])
    row = dict(zip(data.columns, data.inputs[at].tolist(), strict=True))
    gaps = {name for name in data.columns if name.endswith("missing")}
    assert gaps == {f"{name} missing" for name in ("trestbps", "chol", "fbs", "restecg", "slope", "ca", "thal")}
    assert all(row[name] == 1 for name in gaps) and row["cp = 2"] == 1
    fills = {number.name: number.fill for number in data.preparation.numbers}
    assert (fills["trestbps"], fills["chol"], fills["ca"]) == (130, 240, 0)
    ages = data.inputs[:920, data.columns.index("age")]
    assert abs(ages.mean()) < 1e-5 and abs(ages.std() - 1) < 1e-5
    assert not any(name.endswith("missing") for name in data.preparations[1].columns)  # which never saw that row
    assert np.isfinite(data.inputs).all()


def test_a_hospital_s_file_cut_short_is_refused_by_line(tmp_path):
    layouts.write_heart(tmp_path)
    path = tmp_path / "processed.va.data"
    lines = path.read_text().splitlines()
    for content, message in (
        ("\n".join(lines[:100]), "'100 lines': is cut short: 200 lines expected"),
        ("\n".join(lines[:100])[:-4], "line 100 must hold 14 values"),
        ("\n".join(["a,b", *lines]), "line 1 must hold numbers"),
    ):
        path.write_text(content)
        with pytest.raises(FedtierError, match=message):
            load("heart-disease", folder=tmp_path)
