"""What a run has found: models, metrics, predictions, pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..engines import global_models
from ..errors import require
from ..experiments.bundle import Bundle, Predictions
from ..experiments.bundle.adapt import Adapted, adapt
from ..experiments.bundle.stored import Personal
from ..experiments.models import recipe_of
from ..experiments.run_folder import RunFolder
from ..experiments.session import Result as Run
from ..experiments.tables import Config
from ..reports.layout import plain
from ..reports.load_runs import load_runs
from ..reports.terminal import run_table
from .metrics import Records
from .scratch import Scratch


class Result:
    """A finished run. Prints itself as `fedtier run` does.

    model, personal["zurich"]   parameters of the global model and of a client's personal one, of the first seed that has an end
    metrics, clients            rows of all evaluations, and of the clients at the end; .to_pandas()
    predict(rows, client=...)   what a model says of new rows: see `fedtier.experiments.bundle`
    run                         underneath: experiment, state, configuration
    """

    def __init__(self, run: Run, kept: Scratch | None = None) -> None:
        self.run, self._kept = run, kept  # a folder that goes when the result does

    @property
    def config(self) -> Config:
        """The configuration that was run, every key with its value."""
        return self.run.config

    @property
    def folder(self) -> Path | None:
        """The run's folder; None where none was asked for (`save` makes one)."""
        return None if self._kept is not None else self.run.folder

    def save(self, folder: str | Path) -> Path:
        """Copies the run into a new folder, which the commands `report`, `predict` and `resume` read."""
        place = Path(folder)
        require(not place.exists(), "folder", str(folder), "is there already", "choose a new one")
        shutil.copytree(self.run.folder, place)
        return place

    @cached_property
    def metrics(self) -> Records:
        """One row for each evaluation and seed."""
        return Records(RunFolder(self.run.folder).rows())

    @property
    def final(self) -> Records:
        """The last row of each seed."""
        return Records(self.run.final)

    @cached_property
    def clients(self) -> Records:
        """One row for each client and seed at the end: how well the global and the personal model do on its own test rows."""
        found = json.loads((self.run.folder / "clients.json").read_bytes())
        lists = [{key: value for key, value in seed.items() if key != "lost_replies"} for seed in found]
        rows = []
        for seed in lists:
            names = seed.pop("names")
            columns = {key: values for key, values in seed.items() if isinstance(values, list) and key != "clients"}
            rows += [
                {"client": name, "seed": seed["seed"]} | {key: values[k] for key, values in columns.items()}
                for k, name in enumerate(names)
            ]
        return Records(rows)

    @cached_property
    def bundle(self) -> Bundle:
        """The models with everything that a prediction needs, of the first seed that has an end."""
        found = Bundle.load(self.run.folder, recipe=recipe_of(self.config, self.run.experiment.dataset))
        about = found.about._replace(tables=self.config.model_dump(exclude_none=True))
        personal = found.personal
        kept = personal.keeping(self._kept) if isinstance(personal, Personal) else personal  # their file goes with the last
        return replace(found, about=about, personal=kept)

    @property
    def model(self) -> PyTree | None:
        """The global model's parameters; None where the method has none."""
        if self.run.experiment.model is not None:
            return self.bundle.model
        x = global_models(self.run.experiment.method, self.run.state)  # nothing to predict: no bundle
        return None if x is None else trees.map(lambda a: np.asarray(a[0]), x)

    @property
    def personal(self) -> Mapping[str, PyTree]:
        """The personal models' parameters by the client's name."""
        return self.bundle.personal

    def predict(self, rows: Any, client: str | None = None) -> Predictions:
        """What the global model, or the personal model of `client`, says of `rows`: a frame, a file or an array."""
        return self.bundle.predict(rows, client=client)

    def adapt(self, rows: Any, *, client: str = "new", steps: int | None = None, test_share: float = 0.0) -> Adapted:
        """A personal model for a client that was not in training, from its labelled rows, by the method's own rule."""
        return adapt(self.bundle, rows, client=client, steps=steps, test_share=test_share)

    def plot(self) -> Any:
        """Losses and accuracies against rounds, bytes and local steps, as a figure of matplotlib."""
        from ..reports.plots import curves_figure

        return curves_figure(load_runs([self.run.folder]))

    def report(self, file: str | Path = "report.html") -> Path:
        """Writes the page that `fedtier report` writes; the file."""
        from ..reports.page import write_report

        return Path(write_report((self.run.folder,), Path(file), None, None)["report"])

    def __repr__(self) -> str:
        parts = run_table(self.run)
        if self._kept is not None:  # there is no folder to show
            parts = [part for part in parts if not (isinstance(part, str) and part.startswith(("results:", "next:")))]
        return plain(parts).rstrip()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def load(folder: str | Path, seed: int | None = None) -> Bundle:
    """The models of a run's folder: `.predict(rows, client=...)`, `.model`, `.personal["zurich"]`."""
    return Bundle.load(folder, seed)
