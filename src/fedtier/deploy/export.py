"""A simulated federation as files, one for each party: to rehearse a run between sites, and to compare the two.

Rows are in the order in which the simulation sees them, inputs as the data set stores them, tables already prepared; a
site's held-back rows are the last of its file. preparation.json, the server's, says how they are scaled.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from .. import datasets as data_sets
from ..datasets import Dataset, Preparation
from ..datasets.preparation import Scaling
from ..errors import require
from ..experiments.assemble import federate
from ..experiments.data import client_names, load_data
from ..experiments.tables import Config
from ..own_code.held import is_object
from ..own_code.naming import Place, bare, is_own, is_path
from ..storage.files import told
from .site import OWN_CODE


def export_rows(config: Config, folder: Path) -> list[Path]:
    """Writes run.toml, preparation.json, server.npz, test.npz, and site-K.npz with site-K.toml; the files written. Refuses a
    folder in use."""
    require(not (folder / "run.toml").exists(), "--export", str(folder), "already holds a federation", "choose another folder")
    labelled = is_own(config.data.name) or data_sets.SETS[config.data.name].labelled
    require(labelled, "data.name", config.data.name, "has no labelled rows to share out among sites")
    dataset = load_data(config)
    federation = federate(config, dataset, config.run.seed)
    index, labels = np.asarray(federation.index), _labels(dataset)
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, start: Any, size: Any) -> Path:
        rows = index[int(start) : int(start) + int(size)]
        path = folder / name
        with told(path):
            np.savez(path, inputs=dataset.inputs[rows], labels=labels[rows])
        return path

    written = [write("server.npz", *federation.server), write("test.npz", *federation.test), folder / "preparation.json"]
    with told(written[-1]):
        written[-1].write_text(_as_stored(dataset).to_json(), encoding="utf-8")
    owners, content = client_names(config, dataset, federation.clients), config.model_dump(exclude_none=True)
    code = _own_code(content, folder)
    models = [_copied(str(word), folder) for word in content.pop("clients")["models"]]  # each site's own business
    for k in range(federation.clients):
        held = int(federation.held.size[k])
        written.append(write(f"site-{k}.npz", federation.train.start[k], federation.train.size[k] + held))
        site = {"name": f"site-{k}", "data": f"site-{k}.npz", "test_rows": held} | ({"code": code} if code else {})
        site |= {"model": models[k if len(models) > 1 else 0]} if models else {}
        written.append(_toml(folder / f"site-{k}.toml", site, f"# {config.data.title}, client {owners[k]}\n"))
    content["method"]["server_seat"] = False  # the wire has none
    content["data"] = {"clients": federation.clients}
    content["run"]["seeds"] = 1
    content["wire"] = {
        "sites": [f"site-{k}" for k in range(federation.clients)], "server": "server.npz", "test": "test.npz",
        "preparation": "preparation.json",
    }  # fmt: skip
    return [_toml(folder / "run.toml", content), *written]


def _own_code(content: dict[str, dict[str, Any]], folder: Path) -> list[str]:
    """Copies the user's files that the tables name, which name the copies then; the words."""
    words = []
    for table, key in OWN_CODE:
        word = str(content[table].get(key, ""))
        if is_path(word):
            shutil.copy(Place.of(word).file, folder)
            content[table][key] = bare(word)
            words.append(bare(word))
    return words


def _copied(word: str, folder: Path) -> str:
    """The word of a model of a client's own, whose file lies in `folder` then."""
    require(
        not is_object(word), "clients.models", word, "is an object of a Python program, which no file holds", "FILE.py:NAME"
    )
    if not is_path(word):
        return word
    path, bracket, options = word.partition("(")
    shutil.copy(Place.of(path).file, folder)
    return bare(path) + bracket + options


def _labels(dataset: Dataset) -> np.ndarray:
    """[N] as their source has them: names of classes, or numbers in their own unit."""
    if dataset.label_names:
        return np.asarray(dataset.label_names)[dataset.labels]
    label = dataset.preparation.label
    return dataset.labels.astype(np.float64) / label.scale + label.shift


def _as_stored(dataset: Dataset) -> Preparation:
    """The preparation of rows that are written as the data set stores them: what is left to do is to scale them."""
    shift, scale = (np.asarray(value, np.float32) for value in (dataset.shift, dataset.scale))
    return Preparation(dataset.preparation.label, scaling=Scaling(dataset.shape, shift, scale))


def _toml(path: Path, content: dict[str, Any], note: str = "") -> Path:
    with told(path):
        path.write_text(note + tomli_w.dumps(content), encoding="utf-8")
    return path
