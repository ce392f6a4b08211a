"""A model that has left fedtier predicts what its bundle predicts: plain NumPy, ONNX."""

import subprocess
import sys

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.bundle.to_numpy import to_numpy
from fedtier.experiments.bundle.to_onnx import to_onnx

from .conftest import write_patients
from .test_bundle import MODELS, REGRESSION

WITHOUT_FEDTIER = """
import sys
for name in ("jax", "fedtier", "sklearn", "safetensors"):
    sys.modules[name] = None
sys.path.insert(0, "")
import numpy as np
from model import predict
rows = dict(np.load("rows.npz"))
values, probabilities = predict(rows["inputs"] if "inputs" in rows else rows)
np.savez("said.npz", values=values, **({} if probabilities is None else {"probabilities": probabilities}))
"""


def some_rows(result, tmp_path):
    """New rows as columns, one category unknown and some cells missing; or images, flat or not."""
    if not result.experiment.dataset.columns:
        return {"inputs": result.experiment.dataset.inputs[:50]}
    lines = [line.split(",") for line in write_patients(tmp_path / "new.csv", rows=60, seed=3).read_text().splitlines()]
    rows = {name: np.asarray([line[k] for line in lines[1:]]) for k, name in enumerate(lines[0])}
    rows["ward"][rows["ward"] == "?"] = ""
    rows["ward"][:2] = ("z", "")
    number = {name: np.asarray([float(cell or "nan") for cell in rows[name]]) for name in ("age", "dose")}
    return {name: number.get(name, rows[name]) for name in ("age", "dose", "ward", "outcome")}


def prediction(bundle, rows, client):
    return bundle.predict(rows.get("inputs", {name: column for name, column in rows.items()}), client)


@pytest.mark.slow
@pytest.mark.parametrize("client", [None, 2])
@pytest.mark.parametrize("settings", [*MODELS, REGRESSION])
def test_an_export_to_numpy_predicts_the_same_where_there_is_neither_jax_nor_fedtier(finished, tmp_path, settings, client):
    result = finished(*settings)
    bundle, rows = Bundle.load(result.folder), some_rows(result, tmp_path)
    name = None if client is None else bundle.clients[client]
    assert [path.name for path in to_numpy(bundle, tmp_path / "model.py", name)] == ["model.npz", "model.py"]
    np.savez(tmp_path / "rows.npz", **rows)
    subprocess.run([sys.executable, "-I", "-c", WITHOUT_FEDTIER], cwd=tmp_path, check=True)
    wanted = prediction(bundle, rows, name)
    with np.load(tmp_path / "said.npz") as said:
        if wanted.probabilities is None:
            np.testing.assert_allclose(said["values"], wanted.values, rtol=1e-6)
        else:
            np.testing.assert_array_equal(said["values"], wanted.values)
            np.testing.assert_allclose(said["probabilities"], wanted.probabilities, rtol=0, atol=1e-6)


def test_the_exported_file_is_a_program_that_reads_csv(finished, tmp_path):
    bundle = Bundle.load(finished(*MODELS[0]).folder)
    to_numpy(bundle, tmp_path / "model.py", "bern")
    rows = write_patients(tmp_path / "new.csv", rows=30, seed=4)
    said = subprocess.run(
        [sys.executable, "-I", "model.py", rows.name], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    first, *lines = [line.split(",") for line in said.splitlines()]
    wanted = bundle.predict(rows, "bern")
    assert first == ["predicted", "probability sick", "probability well"]
    assert [line[0] for line in lines] == wanted.values.tolist()
    np.testing.assert_allclose(np.asarray([line[1:] for line in lines], float), wanted.probabilities, rtol=0, atol=1e-6)


@pytest.mark.extras
@pytest.mark.parametrize("client", [None, 2])
@pytest.mark.parametrize("settings", [*MODELS, REGRESSION])
def test_onnxruntime_predicts_the_same_from_an_export_to_onnx(finished, tmp_path, settings, client):
    import onnxruntime

    result = finished(*settings)
    bundle, rows = Bundle.load(result.folder), some_rows(result, tmp_path)
    name = None if client is None else bundle.clients[client]
    to_onnx(bundle, tmp_path / "model.onnx", name)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    if "inputs" in rows:
        given = {"rows": rows["inputs"].astype(np.float32)}
    else:
        numbers = [column.name for column in bundle.preparation.numbers]
        words = [column.name for column in bundle.preparation.categories]
        given = {"numbers": np.stack([rows[column] for column in numbers], axis=1)}
        given |= {column: rows[column].astype(object)[:, None] for column in words}
    said, wanted = session.run(None, given), prediction(bundle, rows, name)
    if wanted.probabilities is None:
        np.testing.assert_allclose(said[0], wanted.values, rtol=1e-6)
    else:
        assert said[0].tolist() == wanted.values.tolist()
        np.testing.assert_allclose(said[1], wanted.probabilities, rtol=0, atol=1e-6)


def test_an_export_to_numpy_is_a_python_file(finished, tmp_path):
    bundle = Bundle.load(finished(*MODELS[0]).folder)
    with pytest.raises(FedtierError, match=r"must end in \.py"):
        to_numpy(bundle, tmp_path / "model.npz")
