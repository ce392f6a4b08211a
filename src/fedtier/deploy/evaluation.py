"""A federation that only measures: a bundle's model at every site, on the site's held-back rows, with no round played.

It is a run of `server_only`, whose local part moves nothing, with 0 rounds, that starts from the bundle's model and prepares
rows as the bundle does. A site answers as to any evaluation: with its scores, or without them where its own file says
`share_scores = false`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tomli_w
from jaxtyping import PyTree

from .. import trees
from ..datasets import Preparation
from ..errors import require
from ..experiments import config as configuration
from ..experiments.assemble import Experiment
from ..experiments.bundle import Bundle
from ..storage.files import make_private, write_whole

FILE = "evaluate.toml"
METHOD = {"name": "server_only", "preset": "paper", "fine_tune": 0.0}  # the personal model is the global one


def evaluation_file(run_file: Path, bundle: Path, folder: Path) -> Path:
    """evaluate.toml in `folder`: the run of `run_file` with its sites and rows, that measures the model of `bundle`."""
    found = Bundle.load(bundle)
    require(found.model is not None, "--evaluate", str(bundle), "has no global model: its method has personal models alone")
    tables: dict[str, Any] = configuration.read_toml(run_file)
    wire = dict(tables.get("wire", {})) | {"evaluate": str(bundle.resolve())}
    for key in ("server", "test"):
        if isinstance(wire.get(key), str):
            wire[key] = str((run_file.parent / wire[key]).resolve())
    wire.pop("preparation", None)  # the model's own counts
    content = {
        "data": tables.get("data", {}), "model": dict(found.about.tables)["model"], "method": METHOD,
        "run": {"rounds": 0, "seed": tables.get("run", {}).get("seed", 0)}, "wire": wire,
    }  # fmt: skip
    make_private(folder)
    write_whole(folder / FILE, tomli_w.dumps(content).encode())
    return folder / FILE


def measured_preparation(bundle: Path) -> Preparation:
    """How the sites are to prepare their rows."""
    return Bundle.load(bundle).preparation


def with_model_of(experiment: Experiment, bundle: Path) -> Experiment:
    """The experiment with the bundle's model in the place of a drawn one; refused where it has other shapes."""
    model: PyTree = trees.map(lambda a: jnp.asarray(a)[None], Bundle.load(bundle).model)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (model, experiment.x)]
    require(
        shapes[0] == shapes[1], "wire.evaluate", str(bundle), "has a model of other shapes than [model] and the data ask for"
    )
    return experiment._replace(x=model)
