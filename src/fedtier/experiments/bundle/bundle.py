"""A bundle in memory: the models of one seed, and predictions by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from ... import trees
from ...compilation import jitted
from ...datasets import Preparation
from ...errors import NOTHING, FedtierError, require
from ...methods.predictions.mixture import mixed
from ...own_code.own_models.contract import OwnModel, logits_of
from ...own_code.own_models.listed import WithGlobal, own_models
from ...problem import Model
from ...problem.models import Apply
from ...storage import array_files, named_arrays
from ...storage.array_files import ArrayFile
from ...storage.files import make_folder, write_whole
from ..models import Recipe
from .about import FILE, About
from .predictions import Predictions, predictions_of
from .rows import Given, read_rows
from .stored import FORMAT, HINT, Personal, Stored

GLOBAL, PERSONAL, FOLDER = "global.safetensors", "personal.safetensors", "bundle"
BLOCK = 256  # rows that are predicted at once


@dataclass(frozen=True)
class Bundle:
    """What a run has trained, for one of its seeds.

    >>> bundle = Bundle.load("runs/...")                        # a run's folder, or a bundle's own
    >>> bundle.predict("rows.csv", client="zurich").values
    """

    about: About
    seed: int
    model: PyTree | None  # the global model's parameters; None where the method has none
    personal: Mapping[str, PyTree]  # the personal models' parameters by client, read when they are asked for

    @classmethod
    def load(cls, folder: str | Path, seed: int | None = None, recipe: Recipe | None = None) -> Bundle:
        """The bundle of a run's folder, of a site's state folder, or of the bundle's own; the first seed that has an end
        unless one is named. `recipe` where the program has the model as an object, which no file holds."""
        place = find(Path(folder))
        about = About.read(place)
        about = about if recipe is None else about._replace(recipe=recipe)
        seed = _seed(place, about, seed)
        s, like = about.seeds.index(seed), parameter_shapes(about)
        model, names = None, about.clients
        if about.has_global:
            file = ArrayFile(place / GLOBAL, FORMAT, HINT)
            file.require_shapes(_stacked(like, len(about.seeds)))
            model = named_arrays.from_arrays(file.one((s,)), like, str(file.path))
        models = Stored(place / PERSONAL, names, like, len(about.seeds), s) if names else own_models(place.parent, seed)
        return cls(about, seed, model, Personal(models, about.why))

    def save(self, folder: str | Path) -> Path:
        """Writes this seed's models, all personal ones included, as a bundle of its own; the folder."""
        about = self.about._replace(
            preparations={self.seed: self.preparation},
            clients=tuple(self.personal),
            diverged=(),
            has_global=self.model is not None,
        )
        models = [self.personal[name] for name in self.personal]
        opaque = [name for name, model in zip(self.personal, models, strict=True) if isinstance(model, OwnModel)]
        rule = "is a model of the client's own, in a format of its own, which a bundle does not hold"
        require(not opaque, "client", opaque[0] if opaque else "", rule, "predict with the run's own folder")
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves)[None], *models) if models else None
        return write(Path(folder), about, None if self.model is None else trees.map(lambda a: a[None], self.model), stacked)

    @property
    def preparation(self) -> Preparation:
        """How rows become the model's inputs, and what its outputs are called."""
        return self.about.preparations[self.seed]

    @property
    def clients(self) -> tuple[str, ...]:
        """Whose personal models there are."""
        return tuple(self.personal)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have; () where rows are arrays without names."""
        return self.preparation.needs or self.about.reading.columns

    def parameters(self, client: str | None = None) -> PyTree:
        """The parameters of a client's personal model, or without one of the global model."""
        if client is not None:
            return self.personal[client]
        if self.model is None:
            some = ", ".join(self.clients[:5])
            rule = "must be named: this method has personal models alone"
            raise FedtierError("client", NOTHING, rule, f"known: {some}")
        return self.model

    def read(self, rows: object) -> Given:
        """`rows` as the model's inputs: a path, a DataFrame, a dict of arrays or an array."""
        given = read_rows(rows, self.preparation, self.about.reading)
        missing = self.about.recipe.shape[-1] - given.inputs.shape[-1]
        if not missing:
            return given
        # Seeds that leave a column out which another keeps have zeros in its place, at the end (`Dataset.prepared`).
        return given._replace(inputs=np.pad(given.inputs, [(0, 0)] * (given.inputs.ndim - 1) + [(0, missing)]))

    def outputs(self, inputs: np.ndarray, client: str | None = None) -> np.ndarray:
        """[N, K] of prepared inputs: a logit per class, or the prepared label of a regression."""
        found = self.parameters(client)
        if isinstance(found, OwnModel):
            own = logits_of(found.predict_proba(inputs), len(inputs), self.about.recipe.outputs, str(client))[0]
            if not isinstance(found, WithGlobal):
                return own
            return np.asarray(mixed(own, self.outputs(inputs), found.share))
        parameters = trees.map(jax.numpy.asarray, found)
        return apply_in_blocks(self._apply, parameters, inputs)

    def predict(self, rows: object, client: str | None = None) -> Predictions:
        """What the global model, or the personal model of `client`, says of `rows`: a path, a DataFrame, a dict of arrays or an
        array. Columns may come in any order; missing values and unknown categories are treated as in training."""
        given = self.read(rows)
        found = predictions_of(self.preparation.label, self.outputs(given.inputs, client), given.truth)
        return found._replace(unused=given.unused)

    def adapt(self, rows: object, *, client: str = "new", steps: int | None = None, radius: float | None = None) -> Bundle:
        """The bundle of a client that was not in training: the global model, and a personal one made from its labelled `rows`
        by the method's own rule. `fedtier.experiments.bundle.adapt` says more, and measures."""
        from .adapt import adapt

        return adapt(self, rows, client=client, steps=steps, radius=radius).bundle

    @cached_property
    def network(self) -> Model:
        """The model as functions, fed with prepared inputs."""
        return self.about.recipe.build()

    @cached_property
    def _apply(self) -> Apply:
        return jitted(self.network.apply)

    def __repr__(self) -> str:
        recipe, label = self.about.recipe, self.preparation.label
        what = f"{len(label.classes)} classes" if label.classes else "a number"
        held = "a global model" if self.model is not None else "no global model"
        models = f"{held}, {len(self.personal)} personal one{'' if len(self.personal) == 1 else 's'}"
        return f"Bundle({recipe.table['name']}, {label.name}: {what}; {models}; seed {self.seed})"


def apply_in_blocks(apply: Apply, parameters: PyTree, inputs: np.ndarray) -> np.ndarray:
    """apply(parameters, inputs) in blocks of one size, so that it is compiled once."""
    require(len(inputs) > 0, "rows", len(inputs), "there are none")
    count = -len(inputs) % BLOCK
    padded = np.concatenate([inputs, np.zeros((count, *inputs.shape[1:]), inputs.dtype)])
    parts = [np.asarray(apply(parameters, padded[k : k + BLOCK])) for k in range(0, len(padded), BLOCK)]
    return np.concatenate(parts)[: len(inputs)]


def write(folder: Path, about: About, model: PyTree | None, personal: PyTree | None) -> Path:
    """Writes a bundle: leaves [seeds, ...] and [seeds, clients, ...]. bundle.json comes last: without it there is none."""
    make_folder(folder)
    for name, tree, stacked in ((GLOBAL, model, 1), (PERSONAL, personal, 2)):
        if tree is not None:
            array_files.save(folder / name, tree, {"format": FORMAT}, stacked=stacked)
    write_whole(folder / FILE, about.to_json())
    return folder


def find(folder: Path) -> Path:
    """The bundle in a folder: its own, a run's, or that of the only run in a site's state folder."""
    require(folder.is_dir(), "folder", str(folder), "is not there", "give the folder that `fedtier run` named")
    for place in (folder, folder / FOLDER):
        if (place / FILE).exists():
            return place
    sites = sorted(
        {path.parent for pattern in (f"*/{FOLDER}/{FILE}", f"memory/*/{FOLDER}/{FILE}") for path in folder.glob(pattern)}
    )
    if len(sites) == 1:
        return sites[0]
    if sites:
        hint = f"give one of them: {', '.join(str(place) for place in sites[:3])}"
        raise FedtierError("folder", str(folder), f"holds {len(sites)} bundles", hint)
    if (folder / "config.toml").exists():
        raise FedtierError("folder", str(folder), *_unfinished(folder))
    raise FedtierError("folder", str(folder), "holds neither a run nor a bundle", "give the folder that `fedtier run` named")


def _unfinished(folder: Path) -> tuple[str, str]:
    if (folder / "diverged.json").exists():
        return "holds a run that diverged, so it has no model to take away", "lower the step sizes and run it again"
    if (folder / "clients.json").exists():
        return "holds a finished run without a bundle", f"one without labels has none; else `fedtier resume {folder}` writes it"
    return "holds a run that is not finished", f"`fedtier resume {folder}` goes on with it"


def _seed(place: Path, about: About, seed: int | None) -> int:
    sound = [one for one in about.seeds if one not in about.diverged]
    if seed is None:
        return sound[0]
    known = f"it has the seeds {', '.join(map(str, sound))}"
    require(seed not in about.diverged, "seed", seed, f"has diverged in {place}", known)
    require(seed in sound, "seed", seed, f"is none of {place}", known)
    return seed


def parameter_shapes(about: About) -> PyTree:
    """The shapes of one model's parameters."""
    return jax.eval_shape(about.recipe.build().init, jax.random.key(0))


def _stacked(like: PyTree, seeds: int) -> PyTree:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype), like)
