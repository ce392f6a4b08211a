"""A bundle predicts what the run itself predicted, elsewhere and without the training data."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedtier.datasets import load
from fedtier.errors import FedtierError
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.bundle.rows import Reading, read_rows

from .conftest import held_back, personal_model, write_patients

MODELS = [
    ("table", "model.name=linear"),
    ("table", "model.name=mlp", "method.name=fedavg"),
    ("images", "model.name=cnn", "method.name=fedavg"),
]

REGRESSION = (
    "table",
    "model.name=mlp",
    "method.name=fedavg",
    "data.label=age",
    "data.task=regression",
    "data.max_categories=2",
)

ELSEWHERE = """
import json, sys
import numpy as np
from fedtier.errors import FedtierError
from fedtier.experiments.bundle import Bundle
for folder, rows, client, out in json.load(sys.stdin):
    np.save(out, Bundle.load(folder).predict(rows, client=client).probabilities)
"""


def softmax(outputs):
    grown = np.exp(np.asarray(outputs, np.float64) - np.max(outputs, axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def save_rows(result, rows, path):
    """These rows of the source as a user has them: a CSV without the label, or the images as they are stored."""
    if result.experiment.dataset.columns:
        lines = Path(result.config.data.file).read_text().splitlines()
        cut = [line.rsplit(",", 2)[0] for line in lines]
        path = path.with_suffix(".csv")
        path.write_text("\n".join([cut[0], *(cut[1 + k] for k in rows)]) + "\n")
    else:
        path = path.with_suffix(".npz")
        np.savez(path, inputs=result.experiment.dataset.inputs[rows])
    return path


@pytest.mark.slow
def test_in_another_process_without_the_data_a_bundle_predicts_what_the_run_predicted(finished, tmp_path):
    wanted, orders = {}, []
    for k, settings in enumerate(MODELS):
        result = finished(*settings)
        bundle = shutil.copytree(result.folder / "bundle", tmp_path / f"bundle-{k}")
        names = result.experiment.client_names
        y, x = personal_model(result, 0, 2)
        rows = held_back(result, 0, 2)
        inputs = result.experiment.federation.arrays.inputs[rows]
        for client, parameters in ((None, x), (names[2], y)):
            out = tmp_path / f"{k}-{client}.npy"
            orders.append([str(bundle), str(save_rows(result, rows, tmp_path / f"rows-{k}")), client, str(out)])
            wanted[out] = softmax(result.experiment.model.apply(parameters, inputs))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=json.dumps(orders).encode(), check=True, cwd=tmp_path, env=environment
    )
    for out, expected in wanted.items():
        np.testing.assert_allclose(np.load(out), expected, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("settings", MODELS)
def test_the_accuracies_of_a_bundle_are_those_that_the_run_has_written(finished, settings):
    result = finished(*settings)
    bundle = Bundle.load(result.folder)
    (written,) = json.loads((result.folder / "clients.json").read_text())
    labels = np.asarray(bundle.preparation.label.classes)[result.experiment.dataset.labels]
    for i, name in enumerate(written["names"]):
        rows = held_back(result, 0, i)
        inputs = result.experiment.dataset.inputs[rows]
        for client, accuracies in ((name, written["personal"]), (None, written["global"])):
            inputs_of_model = bundle.preparation.apply(inputs) if settings[0] == "images" else inputs
            said = np.asarray(bundle.preparation.label.classes)[bundle.outputs(inputs_of_model, client).argmax(axis=1)]
            assert np.mean(said == labels[rows]) == pytest.approx(accuracies[i], abs=1e-6)


@pytest.mark.slow
def test_rows_may_come_in_any_form_and_their_columns_in_any_order(finished, tmp_path):
    bundle = Bundle.load(finished("table", "model.name=linear").folder)
    path = write_patients(tmp_path / "new.csv", rows=40, seed=1)
    whole = bundle.predict(path)
    assert bundle.columns == ("age", "dose", "ward") and whole.unused == ("town",)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    frame = {name: np.asarray([line[k] for line in lines]) for name, k in (("ward", 2), ("dose", 1), ("age", 0))}
    np.testing.assert_array_equal(bundle.predict(frame).probabilities, whole.probabilities)
    assert bundle.predict(frame).accuracy is None
    assert whole.accuracy == np.mean(whole.values == np.asarray([line[3] for line in lines]))
    strange = bundle.predict(frame | {"ward": np.asarray(["zzz"] * 40)})
    assert np.isfinite(strange.probabilities).all()


@pytest.mark.slow
def test_a_saved_copy_of_one_seed_is_the_same_bundle(finished, tmp_path):
    result = finished("table", "model.name=linear", "run.seeds=2")
    rows = result.config.data.file
    second = Bundle.load(result.folder, seed=1)
    copy = Bundle.load(second.save(tmp_path / "copy"))
    assert (copy.seed, copy.clients) == (1, ("bern", "chur", "zurich"))
    for client in (None, "zurich"):
        np.testing.assert_array_equal(copy.predict(rows, client).probabilities, second.predict(rows, client).probabilities)
    first = Bundle.load(result.folder)
    assert first.seed == 0 and np.abs(first.predict(rows).probabilities - copy.predict(rows).probabilities).max() > 1e-3


@pytest.mark.slow
def test_a_model_of_ones_own_is_rebuilt_from_the_file_it_came_from(finished, tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(
        "from fedtier.problem import mlp\ndef make(features, outputs, *, width=3):\n    return mlp(features, outputs, width)\n"
    )
    monkeypatch.chdir(tmp_path)
    result = finished("table", "model.name=net.py:make", "model.width=5", "method.name=fedavg", "run.rounds=1")
    monkeypatch.chdir(result.folder)
    bundle = Bundle.load(result.folder)
    assert bundle.parameters("bern").layers[0].weight.shape[0] == 5
    assert bundle.predict(result.config.data.file).probabilities.shape == (240, 2)
    (tmp_path / "net.py").unlink()
    with pytest.raises(FedtierError, match="is not there"):
        Bundle.load(result.folder)


def test_new_rows_are_read_with_the_commas_of_the_training_rows(tmp_path):
    """Seen: training read 20,1 right, but new rows of 20,125 and 18,500 became 20125 and 18500."""
    rows = tmp_path / "t.tsv"
    rows.write_text("x\ty\n" + "".join(f"{18 + k},{k}\t{k % 2}\n" for k in range(6)))
    data = load("file", file=rows, label="y").prepared([np.arange(6)])
    new = tmp_path / "new.tsv"
    new.write_text("x\tk\n20,125\t1\n18,500\t2\n")
    given = read_rows(new, data.preparation, Reading(decimal=data.decimal))
    x = 18 + 1.1 * np.arange(6)
    np.testing.assert_allclose(given.inputs[:, 0], (np.array([20.125, 18.5]) - x.mean()) / x.std(), rtol=1e-5)
    with pytest.raises(FedtierError, match=r"column x = '20,125': may be 20125 or 20\.125"):
        read_rows(new, data.preparation, Reading())


def test_rows_tell_a_class_called_none(tmp_path):
    frame = {"x": [1.0, 2.0, 4.0], "y": ["none", "mild", "mild"]}
    data = load("file", file=frame, label="y", missing_words=[]).prepared([np.arange(3)])
    assert read_rows(frame, data.preparation, Reading()).truth.tolist() == ["none", "mild", "mild"]
