"""Published sets with natural clients, in small files of their publishers' layouts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile

import numpy as np
import pytest

from fedtier.datasets import SETS, load, people, schools
from fedtier.datasets.published import Many, digest_of, git_id_of
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration

from . import layouts
from .test_download import cached, server  # noqa: F401  a fixture


@pytest.mark.parametrize("name", [name for name, one in SETS.items() if one.natural and name != "fed-heart-disease"])
def test_a_set_whose_rows_have_owners_has_them_for_clients_unless_told_otherwise(name):
    assert configuration.load_config(None, [f"data.name={name}"]).data.partition == "natural"
    assert configuration.load_config(None, [f"data.name={name}", "data.partition=iid"]).data.partition == "iid"


@pytest.mark.parametrize("place", ["", "activity", "activity/UCI HAR Dataset", "UCI HAR Dataset"])
def test_activity_has_its_people_as_clients_and_names_for_everything(tmp_path, place):
    rows, labels, subjects = layouts.write_activity(tmp_path / place)
    data = load("activity", folder=tmp_path)
    assert data.rows == 60 and data.test_rows == 20 and data.label_names[:2] == ("walking", "walking upstairs")
    assert data.labels.tolist() == (labels - 1).tolist()
    assert data.owner_names == ("subject 1", "subject 2", "subject 3", "subject 4", "subject 30")
    assert [data.owner_names[k] for k in data.owner] == [f"subject {s}" for s in subjects]
    columns = data.raw.rows.columns
    assert len(columns) == 561 and "fBodyAcc-bandsEnergy()-0 (2)" in columns
    np.testing.assert_allclose(np.column_stack([*columns.values()]), rows, rtol=1e-6)


def test_activity_s_files_that_do_not_belong_together_are_refused(tmp_path):
    layouts.write_activity(tmp_path)
    (tmp_path / "subject_test.txt").write_text("2\n4\n")
    with pytest.raises(FedtierError, match=r"subject_test\.txt = '2 lines': must have 20, one per row"):
        load("activity", folder=tmp_path)
    (tmp_path / "X_test.txt").write_text("1 2 3\n")
    with pytest.raises(FedtierError, match=r"X_test\.txt = 3: must hold 561 numbers a line"):
        load("activity", folder=tmp_path)


def test_qmnist_has_its_writers_as_clients(tmp_path):
    images, labels = layouts.write_qmnist(tmp_path / "qmnist")
    data = load("qmnist", folder=tmp_path)
    np.testing.assert_array_equal(data.inputs[:, 0], images)
    assert data.labels.tolist() == labels[:, 0].tolist() and data.test_rows == 12
    assert data.owner_names == ("writer 7", "writer 500", "writer 2100")
    assert [data.owner_names[k] for k in data.owner] == [f"writer {w}" for w in labels[:, 2]]


def test_qmnist_s_labels_of_another_form_are_refused(tmp_path):
    layouts.write_qmnist(tmp_path)
    (tmp_path / "qmnist-test-labels-idx2-int.gz").write_bytes(gzip.compress(layouts.idx_bytes(np.zeros((12, 8)))))
    with pytest.raises(FedtierError, match="must be an IDX file of integers with 2 dimensions"):
        load("qmnist", folder=tmp_path)


def test_a_spoken_digit_is_a_picture_of_pitch_over_time_with_its_speaker(tmp_path):
    """A pure tone, in the middle of a band, lights up that band in every stretch of time; bands are equally wide in mel."""
    tones = {"0_ann_0.wav": 250.0, "3_bob_0.wav": 1000.0, "7_ann_12.wav": 3200.0}
    layouts.write_spoken(tmp_path / "spoken-digits" / "recordings", tones)
    data = load("spoken-digits", folder=tmp_path)
    assert data.labels.tolist() == [0, 3, 7] and data.owner_names == ("ann", "bob") and data.owner.tolist() == [0, 1, 0]
    pictures = data.raw.rows
    assert pictures.shape == (3, 1, 16, 16)
    for picture, tone in zip(pictures[:, 0], tones.values(), strict=True):
        band = int(np.log10(1 + tone / 700) / np.log10(1 + 4000 / 700) * 16)
        assert np.all(np.argmax(picture, axis=1) == band)
    short = data.prepared([np.arange(3)])
    assert abs(short.inputs.mean()) < 1e-5 and short.shape == (1, 16, 16)


def test_recordings_of_another_form_are_refused(tmp_path):
    layouts.write_spoken(tmp_path, {"0_ann_0.wav": 300.0, "x_bob_0.wav": 1000.0})
    with pytest.raises(FedtierError, match=r"x_bob_0.wav.*DIGIT_SPEAKER_NUMBER"):
        load("spoken-digits", folder=tmp_path)
    (tmp_path / "x_bob_0.wav").unlink()
    path = tmp_path / "0_ann_0.wav"
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(FedtierError, match=r"not an intact .wav file"):
        load("spoken-digits", folder=tmp_path)


def test_pupils_belong_to_authorities_or_schools(tmp_path):
    layouts.write_schools(tmp_path)
    data = load("chem97", folder=tmp_path)
    assert data.owner_names == ("1", "2", "3") and data.label_names == ("0", "2", "4", "6", "8", "10") and data.rows == 60
    assert list(data.raw.rows.columns) == ["gender", "age", "gcsescore"]
    assert load("chem97", folder=tmp_path, owner="school").clients == 7
    config = configuration.load_config(None, ["data.name=chem97", "data.owner=school"])
    assert config.data.partition == "natural"
    with pytest.raises(FedtierError, match="must be one of lea, school"):
        load("chem97", folder=tmp_path, owner="pupil")


def test_exam_scores_are_a_regression_over_schools(tmp_path):
    layouts.write_schools(tmp_path)
    data = load("exam-scores", folder=tmp_path)
    assert data.task == "regression" and data.clients == 5 and "student" not in data.raw.rows.columns


def zipped_in_zip(folder):
    """As UCI serves it: a zip that holds a zip."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"UCI HAR Dataset/{path.name}")
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", inner.getvalue())
        archive.writestr("UCI HAR Dataset.names", "about")
    return outer.getvalue()


def test_a_zip_in_a_zip_is_fetched_once_and_unpacked_flat(server, tmp_path, monkeypatch):  # noqa: F811
    folder, address, asked = server
    layouts.write_activity(tmp_path / "made")
    (folder / "har.zip").write_bytes(zipped_in_zip(tmp_path / "made"))
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "made").iterdir()}
    monkeypatch.setattr(people, "ACTIVITY", people.ACTIVITY._replace(files=files, mirrors=(address,), archive="har.zip"))
    assert load("activity").rows == 60 and load("activity").rows == 60
    assert len(asked) == 1 and cached(tmp_path) == sorted(files)


def test_a_file_known_by_its_git_id_is_checked_as_it_is_served(server, tmp_path, monkeypatch):  # noqa: F811
    folder, address, asked = server
    layouts.write_qmnist(folder)
    path = folder / "qmnist-train-images-idx3-ubyte.gz"
    assert git_id_of(path) == subprocess.check_output(["git", "hash-object", str(path)], text=True).strip()
    files = {name: f"git:{git_id_of(folder / (name + '.gz'))}" for name in people.QMNIST.files}
    monkeypatch.setattr(people, "QMNIST", people.QMNIST._replace(files=files, mirrors=(address,)))
    assert load("qmnist").rows == 42 and load("qmnist").rows == 42
    assert len(asked) == 4 and cached(tmp_path) == sorted([*files, "checksums.json"])
    wrong = files | {"qmnist-test-images-idx3-ubyte": "git:" + "0" * 40}
    monkeypatch.setattr(people, "QMNIST", people.QMNIST._replace(files=wrong, mirrors=(address,)))
    unpacked = tmp_path / "cache" / "fedtier" / "qmnist" / "qmnist-test-images-idx3-ubyte"
    unpacked.write_bytes(unpacked.read_bytes()[:-1])  # damaged: fetched again, and now it does not fit
    with pytest.raises(FedtierError, match="has another git id"):
        load("qmnist")


def test_a_file_without_a_known_checksum_is_trusted_aloud_and_only_once(server, tmp_path, monkeypatch, capfd):  # noqa: F811
    folder, address, _ = server
    layouts.write_schools(folder)
    monkeypatch.setattr(schools, "CHEM97", schools.CHEM97._replace(files={"Chem97.csv": ""}, mirrors=(address,)))
    assert load("chem97").rows == 60
    sha256 = hashlib.sha256((folder / "Chem97.csv").read_bytes()).hexdigest()
    assert f"Chem97.csv: its checksum is not known to fedtier; sha256 {sha256} is trusted" in capfd.readouterr().err
    cache = tmp_path / "cache" / "fedtier" / "chem97"
    assert json.loads((cache / "checksums.json").read_text()) == {"Chem97.csv": sha256}
    assert load("chem97").rows == 60 and "trusted" not in capfd.readouterr().err
    (cache / "Chem97.csv").unlink()
    layouts.write_schools(folder, pupils=90)
    with pytest.raises(FedtierError, match="is not what was downloaded first"):
        load("chem97")


def test_many_files_are_checked_together_and_fetched_again_when_one_is_damaged(server, tmp_path, monkeypatch):  # noqa: F811
    folder, address, asked = server
    made = tmp_path / "made" / "recordings"
    layouts.write_spoken(made, {f"{k}_ann_0.wav": 300.0 + 100 * k for k in range(5)})
    with tarfile.open(folder / "v1.tar.gz", "w:gz") as tar:
        tar.add(made, "free-spoken-digit-dataset-1/recordings")
    known = Many(".wav", 5, digest_of(made.iterdir()))
    monkeypatch.setattr(people, "SPOKEN", people.SPOKEN._replace(mirrors=(address,), archive="v1.tar.gz", many=known))
    assert load("spoken-digits").rows == 5 and load("spoken-digits").rows == 5 and len(asked) == 1
    path = tmp_path / "cache" / "fedtier" / "spoken-digits" / "3_ann_0.wav"
    path.write_bytes(path.read_bytes()[:-2])
    assert load("spoken-digits").rows == 5 and len(asked) == 2
    monkeypatch.setattr(
        people, "SPOKEN", people.SPOKEN._replace(mirrors=(address,), archive="v1.tar.gz", many=Many(".wav", 5, "0"))
    )
    with pytest.raises(FedtierError, match=r"its 5 files .wav have another checksum"):
        load("spoken-digits")
