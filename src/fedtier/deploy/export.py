"""A simulated federation as files, one for each party: to rehearse a run between sites, and to compare the two.

Rows are in the order in which the simulation sees them, inputs as the data set stores them; a site's held-back rows are the
last of its file. The scaling stands in server.npz, because the server is who says it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from .. import datasets as data_sets
from ..errors import require
from ..experiments.assemble import federate, load_data
from ..experiments.config import Config
from ..storage.files import told


def export_rows(config: Config, folder: Path) -> list[Path]:
    """Writes run.toml, server.npz, test.npz, and site-K.npz with site-K.toml; the files written. Refuses a folder in use."""
    require(not (folder / "run.toml").exists(), "--export", str(folder), "already holds a federation", "choose another folder")
    labelled = config.data.name not in data_sets.UNLABELLED
    require(labelled, "data.name", config.data.name, "has no labelled rows to share out among sites")
    dataset = load_data(config)
    federation = federate(config, dataset, config.run.seed)
    index, names = np.asarray(federation.index), np.asarray(dataset.label_names)
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, start: Any, size: Any, **arrays: Any) -> Path:
        rows = index[int(start) : int(start) + int(size)]
        path = folder / name
        with told(path):
            np.savez(path, inputs=dataset.inputs[rows], labels=names[dataset.labels[rows]], **arrays)
        return path

    scaling: dict[str, Any] = {"shift": np.asarray(dataset.shift, np.float32), "scale": np.asarray(dataset.scale, np.float32)}
    written = [write("server.npz", *federation.server, **scaling), write("test.npz", *federation.test)]
    for k in range(federation.clients):
        held = int(federation.held.size[k])
        written.append(write(f"site-{k}.npz", federation.train.start[k], federation.train.size[k] + held))
        site = {"name": f"site-{k}", "data": f"site-{k}.npz", "test_rows": held}
        written.append(_toml(folder / f"site-{k}.toml", site))
    content = config.model_dump(exclude_none=True)
    content["data"]["clients"] = federation.clients
    content["run"]["seeds"] = 1
    content["wire"] = {
        "sites": [f"site-{k}" for k in range(federation.clients)], "server": "server.npz", "test": "test.npz",
        "labels": [str(name) for name in dataset.label_names],
    }  # fmt: skip
    return [_toml(folder / "run.toml", content), *written]


def _toml(path: Path, content: dict[str, Any]) -> Path:
    with told(path):
        path.write_text(tomli_w.dumps(content), encoding="utf-8")
    return path
