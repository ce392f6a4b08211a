"""A personal model for a client that was not in training, by the method's own rule."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ... import keys
from ...compilation import jitted
from ...datasets import Dataset
from ...errors import FedtierError, require, share, whole
from ...federation import View, count_of
from ...keys import Tag
from ...methods.method import Turn, turn_of
from ...problem import Rows
from ...storage.json_value import as_object
from .. import config as configuration
from ..assemble import algorithm
from ..newcomers import FIRST, adapted_model, spec_of_newcomer
from .bundle import Bundle
from .parts import with_parts
from .predictions import Predictions, predictions_of
from .rows import Given
from .stored import Personal


class Adapted(NamedTuple):
    """A newcomer's bundle: the global model and its own; and both on the rows that were held back."""

    bundle: Bundle
    client: str
    held: int  # rows that were held back
    global_says: Predictions | None  # of the held-back rows; None where there are none, or there is no global model
    adapted_says: Predictions | None


def adapt(
    bundle: Bundle, rows: object, *, client: str = "new", steps: int | None = None, test_share: float = 0.0,
    radius: float | None = None,
) -> Adapted:  # fmt: skip
    """The personal model of a client that was not in training, made from its labelled `rows` as the run makes those of its
    clients: y(x) by the local solver, or x after fine-tuning, with the run's last number of local `steps` unless told
    otherwise. `test_share` of the rows, drawn by the bundle's seed, are held back to judge it."""
    require(bool(bundle.about.tables), "bundle", client, "does not say which method trained it", "use the bundle of a run")
    share("test_share", test_share)
    steps = bundle.about.steps if steps is None else steps
    whole("steps", steps)
    given = bundle.read(rows)
    labels = _labels(bundle, given, rows)
    order = np.random.default_rng(bundle.seed).permutation(len(labels))
    held = min(count_of(test_share, len(labels)), len(labels) - 1)
    y = _solved(bundle, given.inputs[order], labels[order], len(labels) - held, steps, radius)
    about = bundle.about._replace(clients=(client,), why="", preparations={bundle.seed: bundle.preparation}, diverged=())
    made = Bundle(about, bundle.seed, bundle.model, Personal({client: y}))
    judged = order[len(labels) - held :]
    return Adapted(
        made, client, held,
        _said(made, given, judged, None) if held and bundle.model is not None else None,
        _said(made, given, judged, client) if held else None,
    )  # fmt: skip


def _solved(bundle: Bundle, inputs: np.ndarray, labels: np.ndarray, train: int, steps: int, radius: float | None) -> PyTree:
    tables = {table: as_object(content) for table, content in bundle.about.tables.items()}
    tables["method"] = with_parts(tables.get("method", {}), bundle.about.parts)
    config = configuration.validate(tables)
    label = bundle.preparation.label
    dataset = Dataset(
        "rows", inputs, labels, label.classes, task="classification" if label.classes else "regression", label=label.name,
        preparations=(bundle.preparation,),
    )  # fmt: skip
    plan = algorithm(config, dataset)
    view = View(
        Rows(jnp.asarray(inputs), jnp.asarray(labels)), jnp.arange(len(labels), dtype=jnp.int32),
        jnp.asarray(0, jnp.int32), jnp.asarray(train, jnp.int32),
    )  # fmt: skip
    root = keys.root(bundle.seed)
    first = bundle.network.init(keys.at(root, keys.BEFORE_ROUND_0, Tag.INIT)) if bundle.model is None else bundle.model
    spec, method = spec_of_newcomer(config, radius), plan.method
    rule = "needs more for a newcomer than the global model, which is all that a bundle has"
    plain = method.offer is None and method.predict is None and not method.shows
    require(plain, "method.name", method.name, rule, "measure newcomers within the run: data.new_clients = 0.2")

    def solve(x: PyTree | None, first: PyTree, view: View, turn: Turn) -> PyTree:
        return adapted_model(method, (), x, first, view, spec, turn)

    return jitted(solve)(bundle.model, first, view, turn_of(bundle.about.round, FIRST, steps, root))


def _labels(bundle: Bundle, given: Given, rows: object) -> np.ndarray:
    label = bundle.preparation.label
    if given.truth is None:
        shown = str(rows) if isinstance(rows, str | Path) else type(rows).__name__
        rule = f"must have the label {label.name} in every row: a model is adapted to labelled rows"
        raise FedtierError("rows", shown, rule, f"add the column {label.name}")
    if label.classes:
        place = {name: k for k, name in enumerate(label.classes)}
        return np.asarray([place[name] for name in given.truth.tolist()], np.int32)
    return ((given.truth - label.shift) * label.scale).astype(np.float32)


def _said(bundle: Bundle, given: Given, judged: np.ndarray, client: str | None) -> Predictions:
    truth = None if given.truth is None else given.truth[judged]
    return predictions_of(bundle.preparation.label, bundle.outputs(given.inputs[judged], client), truth)
