"""The commands on what a run has trained, and what they refuse."""

import json
import shutil

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.bundle import Bundle

from .conftest import write_patients
from .test_bundle import MODELS, REGRESSION


def test_predict_writes_a_csv_and_says_how_good_it_is_where_rows_tell(finished, fedtier, tmp_path):
    folder = finished(*MODELS[0]).folder
    rows = write_patients(tmp_path / "new.csv", rows=30, seed=5)
    code, out, err = fedtier("predict", folder, rows, "--client", "chur")
    wanted = Bundle.load(folder).predict(rows, "chur")
    assert code == 0 and out == wanted.to_csv() and len(out.splitlines()) == 31
    assert f"accuracy on these 30 rows: {wanted.accuracy:.4g}" in err and "does not look at: town" in err
    code, out, err = fedtier("predict", folder, rows, "--out", "said.csv", "--json")
    assert json.loads(out) == {"rows": 30, "accuracy": Bundle.load(folder).predict(rows).accuracy}
    assert (tmp_path / "said.csv").read_text().startswith("predicted,probability sick,probability well\n")


@pytest.mark.slow
def test_a_regression_is_predicted_in_the_unit_of_its_label(finished, fedtier, tmp_path):
    folder = finished(*REGRESSION).folder
    rows = write_patients(tmp_path / "new.csv", rows=30, seed=5)
    code, out, err = fedtier("predict", folder, rows)
    said = np.asarray(out.splitlines()[1:], float)
    ages = np.asarray([float(line.split(",")[0]) for line in rows.read_text().splitlines()[1:]])
    assert code == 0 and 40 < said.mean() < 60
    assert f"rmse on these 30 rows: {np.sqrt(np.mean((said - ages) ** 2)):.4g}" in err


def test_export_model_writes_what_it_names(finished, fedtier, tmp_path):
    code, out, _ = fedtier("export-model", finished(*MODELS[0]).folder, "model.py", "--to", "numpy", "--client", "bern")
    assert code == 0 and out == "written: model.npz\nwritten: model.py\n"
    assert (tmp_path / "model.npz").exists()


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished(*MODELS[0]).folder, tmp_path / "run")


def refused(*words, **options):
    with pytest.raises(FedtierError) as error:
        Bundle.load(*words, **options)
    return str(error.value)


def test_a_folder_without_a_bundle_is_refused_with_what_to_do(copied, tmp_path):
    assert "is not there" in refused(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds neither a run nor a bundle" in refused(tmp_path / "empty")
    shutil.rmtree(copied / "bundle")
    assert "holds a finished run without a bundle" in refused(copied)
    (copied / "clients.json").unlink()
    assert "is not finished" in refused(copied) and f"fedtier resume {copied}" in refused(copied)
    (copied / "diverged.json").write_text("{}")
    assert "diverged" in refused(copied)


def test_a_damaged_bundle_is_refused_by_the_name_of_the_file(copied):
    place = copied / "bundle"
    whole = (place / "personal.safetensors").read_bytes()
    (place / "personal.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "personal.safetensors: is damaged" in refused(copied)
    (place / "personal.safetensors").unlink()
    assert "personal.safetensors: is not there" in refused(copied)
    (place / "personal.safetensors").write_bytes((place / "global.safetensors").read_bytes())
    assert "the model has" in refused(copied)
    text = (place / "bundle.json").read_text()
    (place / "bundle.json").write_text(text.replace("linear", "linaer", 1))
    assert "bundle.json: is damaged: its checksum does not hold" in refused(copied)
    content = json.loads(text)
    del content["checksum"]
    (place / "bundle.json").write_text(json.dumps(content | {"format": "other-7"}))
    assert "must be of format fedtier-bundle-1" in refused(copied)
    del content["clients"]
    (place / "bundle.json").write_text(json.dumps(content))
    assert "bundle.json: is damaged" in refused(copied)
    (place / "bundle.json").write_text(json.dumps(content)[:100])
    assert "bundle.json: is damaged" in refused(copied)


def test_unknown_clients_seeds_and_columns_are_refused_with_the_nearest(finished, fedtier, tmp_path):
    folder = finished(*MODELS[0]).folder
    rows = write_patients(tmp_path / "new.csv", rows=5)
    assert "it has the seeds 0" in refused(folder, seed=3)
    code, _, err = fedtier("predict", folder, rows, "--client", "zurch")
    assert code == 2 and "did you mean 'zurich'?" in err
    rows.write_text(rows.read_text().replace("dose", "doses"))
    code, _, err = fedtier("predict", folder, rows)
    assert code == 2 and "'dose': is a column that the model needs" in err and "did you mean 'doses'?" in err
    rows.write_text("age,dose,ward\nold,1,a\n")
    code, _, err = fedtier("predict", folder, rows)
    assert code == 2 and "column age" in err and "must be a number" in err
    code, _, err = fedtier("predict", folder, tmp_path / "gone.csv")
    assert code == 2 and "is not there" in err


@pytest.mark.slow
def test_images_of_another_shape_and_labels_that_nobody_knows_are_refused(finished, tmp_path):
    bundle = Bundle.load(finished(*MODELS[2]).folder)
    with pytest.raises(FedtierError, match=r"must be rows of shape \(1, 8, 8\)"):
        bundle.predict(np.zeros((3, 1, 9, 9)))
    flat = bundle.predict(np.zeros((3, 64), np.uint8))
    np.testing.assert_array_equal(flat.probabilities, bundle.predict(np.zeros((3, 8, 8), np.uint8)).probabilities)
    rows = write_patients(tmp_path / "new.csv", rows=5)
    rows.write_text(rows.read_text().replace("sick", "dead").replace("well", "dead"))
    with pytest.raises(FedtierError, match="dead"):
        Bundle.load(finished(*MODELS[0]).folder).predict(rows)


@pytest.mark.slow
def test_personal_models_that_are_too_large_are_not_kept_and_the_bundle_says_how_to_get_them(finished, fedtier, copied):
    config = copied / "config.toml"
    config.write_text(config.read_text().replace("keep_personal = 1.0", "keep_personal = 1e-9"))
    assert fedtier("resume", copied)[0] == 0
    bundle = Bundle.load(copied)
    assert bundle.clients == () and "more than run.keep_personal = 1e-09" in bundle.personal.why
    with pytest.raises(FedtierError, match=r"run\.keep_personal"):
        bundle.parameters("bern")
    config.write_text(config.read_text().replace("keep_personal = 1e-9", "keep_personal = 1.0"))
    assert fedtier("resume", copied)[0] == 0
    again, before = Bundle.load(copied), Bundle.load(finished(*MODELS[0]).folder)
    np.testing.assert_array_equal(again.personal["bern"].weight, before.personal["bern"].weight)
