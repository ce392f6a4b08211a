"""What run.metrics say of the final models: on the test rows, and of each client on the rows that it holds back."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ..compilation import jitted
from ..errors import require
from ..federation import Window
from ..problem.models import Apply
from ..storage.json_value import Json
from .assemble import Experiment
from .bundle.bundle import apply_in_blocks
from .bundle.keep import is_kept, personal_gib
from .judges import Judge, Rows, judges_of
from .metric_row import AtTheEnd, Spread
from .metrics import error_spread, evaluated_clients, spread


class Verdict(NamedTuple):
    """One metric of one seed; NaN where it is not defined."""

    judge: Judge
    test: float  # of the global model on the global test rows
    personal: np.ndarray  # [c] of the personal models on their clients' held-back rows
    shared: np.ndarray  # [c] of the global model on the same rows
    held: np.ndarray  # [c] how many rows these are


def check_judges(experiment: Experiment) -> list[Judge]:
    """The metrics of run.metrics; refuses, before any round, what the task does not have or the memory does not allow."""
    config, clients = experiment.config, len(evaluated_clients(experiment))
    judges = judges_of(config.run.metrics, experiment.dataset.task)
    if judges and np.asarray(experiment.federation.train.size).any():
        plain, name = experiment.method.predict is None, experiment.method.name
        rule = f"needs models, and a client of {name} predicts by its rows beside the model"
        require(plain, "run.metrics", config.run.metrics, rule, "leave it out: the accuracies are measured in any case")
        rule = f"needs personal models of {personal_gib(experiment, clients):.3g} GiB, more than run.keep_personal allows"
        hint = "raise run.keep_personal, or lower run.eval_clients"
        require(is_kept(experiment, clients), "run.metrics", config.run.metrics, rule, hint)
    return judges


def verdicts(
    experiment: Experiment, judges: list[Judge], x: PyTree | None, personal: PyTree, left_out: Collection[int] = ()
) -> dict[int, list[Verdict]]:
    """By seed's place: the verdicts on global models x, leaves [seeds, ...], and personal ones, leaves [seeds, c, ...]."""
    if not judges or experiment.model is None:
        return {}
    apply = jitted(experiment.model.apply)
    seeds = [s for s in range(experiment.config.run.seeds) if s not in left_out]
    return {s: _of_seed(experiment, judges, apply, s, _take(x, s), _take(personal, s)) for s in seeds}


def _of_seed(
    experiment: Experiment, judges: list[Judge], apply: Apply, s: int, x: PyTree | None, personal: PyTree
) -> list[Verdict]:
    federation, who = experiment.federation, evaluated_clients(experiment)
    index = np.asarray(federation.index[s])

    def judged(model: PyTree | None, window: Window, *place: int) -> list[float]:
        start, size = (int(np.asarray(a[s])[place]) for a in window)
        if model is None or not size:
            return [float("nan")] * len(judges)
        rows = _rows(experiment, apply, s, model, index[start : start + size])
        return [judge(rows) for judge in judges]

    known = bool(jax.tree.leaves(personal))
    test = judged(x, federation.test)
    own = [judged(_take(personal, k) if known else None, federation.held, i) for k, i in enumerate(who)]
    shared = [judged(x, federation.held, i) for i in who]
    held = np.asarray(federation.held.size[s])[who]
    return [
        Verdict(judge, test[k], np.asarray([one[k] for one in own]), np.asarray([one[k] for one in shared]), held)
        for k, judge in enumerate(judges)
    ]


def _rows(experiment: Experiment, apply: Apply, s: int, model: PyTree, numbers: np.ndarray) -> Rows:
    dataset = experiment.dataset
    outputs = apply_in_blocks(apply, model, dataset.inputs[numbers]).astype(np.float64)
    label = (dataset.preparations[s] if dataset.preparations else dataset.preparation).label
    truth, weights = dataset.labels[numbers], None if dataset.weights is None else dataset.weights[numbers]
    if not label.classes:
        return Rows(truth / label.scale + label.shift, outputs[:, 0] / label.scale + label.shift, None, label, weights)
    grown = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return Rows(truth, outputs.argmax(axis=1), grown / grown.sum(axis=1, keepdims=True), label, weights)


def _take(tree: PyTree | None, k: int) -> PyTree | None:
    return None if tree is None else jax.tree.map(lambda a: a[k], tree)


def verdict_row(found: list[Verdict]) -> AtTheEnd:
    """What the last line of metrics says: by metric, of the test rows and over clients; the worst client has FEWEST rows or
    more."""
    if not found:
        return {}

    def told(one: Verdict) -> dict[str, float | Spread | None]:
        over = spread if one.judge.larger else error_spread
        on_clients = {"personal": over(one.personal, one.held), "global_on_clients": over(one.shared, one.held)}
        return {"global": _number(one.test), **on_clients}

    return {"metrics": {one.judge.name: told(one) for one in found}}


def verdicts_by_client(found: list[Verdict]) -> dict[str, Json]:
    """What clients.json says: by metric, a number for each client."""
    if not found:
        return {}
    lists = {one.judge.name: {"personal": one.personal, "global": one.shared} for one in found}
    return {"metrics": {name: {key: [*map(_number, v)] for key, v in one.items()} for name, one in lists.items()}}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
