"""What a run writes down: a line of metrics for each seed and evaluation, and the files at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..engines import Replies, State, global_models
from ..federation import Plan
from ..methods import registry
from ..methods.method import turn_of
from ..own_code.own_models.kept import names_in
from ..own_code.own_models.listed import LIST, Listed, listed, text_of
from .assemble import Experiment
from .budgets import epsilon_after
from .bundle.bundle import FOLDER
from .bundle.keep import keep_bundle
from .data import seeds_of
from .metric_row import Errors, Row
from .metrics import Quality, Scores, Traffic, Values, error_spread, evaluated_clients, evenly_spaced, spread
from .newcomers import NewScores, newcomers_told
from .run_folder import RunFolder
from .verdicts import Verdict, verdicts_by_client

MOST_BY_CLIENT = 200  # clients whose scores stand in every row: a person looks at so many, and rows stay small


class Spent(NamedTuple):
    """What the rounds so far have cost."""

    bytes_down: int
    bytes_up: int
    local_steps: int


def row(
    scores: Scores, s: int, number: int, seed: int, spent: Spent, seconds: dict[str, float], unit: float | None = None
) -> Row:
    """One line of metrics.jsonl. `unit` is the label's deviation, of a regression: errors are told in the label's own unit."""
    f1, f2 = float(scores.f1[s]), _mean(scores.f2[s])
    held = scores.held[s]
    return {
        "round": number,
        "seed": seed,
        "f1": _number(f1),
        "f2": _number(f2),
        "f": _number(f1 + f2),
        "global_loss": _number(scores.global_loss[s]),
        "global_accuracy": _number(scores.test.accuracy[s]),
        "personal_accuracy": spread(scores.personal.accuracy[s], held),
        "global_on_clients": spread(scores.shared.accuracy[s], held),
        **_errors(scores, s, unit),
        "by_client": _by_client(scores, s, unit),
        "bytes_down": spent.bytes_down,
        "bytes_up": spent.bytes_up,
        "local_steps": spent.local_steps,
        "seconds": {key: round(value, 4) for key, value in seconds.items()},
    }


def _errors(scores: Scores, s: int, unit: float | None) -> Errors:
    if unit is None:
        return {}
    held = scores.held[s]
    return {
        "global_rmse": _number(scores.test.rmse[s] * unit),
        "global_mae": _number(scores.test.mae[s] * unit),
        "global_r2": _number(scores.test.r2[s]),
        "personal_rmse": error_spread(scores.personal.rmse[s] * unit, held),
        "personal_r2": spread(scores.personal.r2[s], held),
        "global_rmse_on_clients": error_spread(scores.shared.rmse[s] * unit, held),
    }


def _by_client(scores: Scores, s: int, unit: float | None) -> dict[str, list[float | None]]:
    """Accuracies, or errors of a regression, of at most MOST_BY_CLIENT of the evaluated clients, evenly spaced; of the models
    that there are."""
    chosen = evenly_spaced(len(scores.held[s]), MOST_BY_CLIENT)

    def told(quality: Quality) -> list[float | None]:
        values = np.asarray(quality.accuracy[s] if unit is None else quality.rmse[s] * unit, float)[chosen]
        return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]

    lists = {"personal": told(scores.personal), "global": told(scores.shared)}
    return {name: values for name, values in lists.items() if any(value is not None for value in values)}


def row_of(experiment: Experiment, size: Traffic, scores: Scores, s: int, number: int, seconds: dict[str, float]) -> Row:
    """The line of seed number s after `number` rounds of a simulation: what the plan says was sent and computed."""
    plan = jax.tree.map(lambda table: table[s, :number], experiment.plan)
    clients = plan.ids < experiment.clients  # a seat for the server's data sends nothing
    spent = Spent(
        _letters(experiment, clients, plan) * size.down,
        int((clients & plan.arrived).sum()) * size.up,
        int(plan.steps[clients].sum()) * experiment.method.solves,
    )
    told = row(scores, s, number, experiment.config.run.seed + s, spent, seconds, experiment.unit(s))
    if plan.seconds is not None:
        told["virtual_seconds"] = float(plan.seconds[-1]) if number else 0.0
    if experiment.config.privacy.kind != "none":
        told["epsilon"] = epsilon_after(experiment.config, experiment.clients, experiment.sizes, number)
    return told


def _letters(experiment: Experiment, clients: np.ndarray, plan: Plan) -> int:
    """How many messages the server has sent; none to a seat that a coin has left free, where nobody has steps to make."""
    free = experiment.config.run.order == "poisson"
    return int((clients & (plan.arrived | (plan.steps > 0))).sum() if free else clients.sum())


def finish(
    experiment: Experiment, store: RunFolder, state: State, scores: Scores, diverged: Collection[int] = (),
    new: NewScores | None = None, found: dict[int, list[Verdict]] | None = None, say: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """The files of a run that is over; seeds that `diverged` have no clients in them, and no final model. `say` hears how many
    clients have chosen the global model."""
    x = global_models(experiment.method, state)
    if x is not None:
        x = jax.tree.map(lambda a: a.at[np.asarray(sorted(diverged), int)].set(jnp.nan) if diverged else a, x)
        store.write_arrays(
            "model.safetensors", x, model=experiment.model.name if experiment.model else "", seeds=experiment.config.run.seeds
        )
    who = evaluated_clients(experiment).tolist()
    if experiment.model is not None:
        keep_bundle(store.folder / FOLDER, experiment, x, () if experiment.own is not None else scores.models, who, diverged)
        if experiment.own is not None:
            _keep_own(experiment, store, scores.models, who)
    names = [experiment.client_names[i] for i in who]
    kept = _kept_global(experiment, x, scores)
    clients = [
        {"seed": experiment.config.run.seed + s, "clients": who, "names": names}
        | _per_client(experiment, scores, s)
        | ({"kept_global": kept[s]} if kept else {})
        | {"lost_replies": lost_replies(state, s)}
        | newcomers_told(new, experiment.new_names, s, experiment.unit(s))
        | verdicts_by_client((found or {}).get(s, []))
        for s in range(len(scores.f1))
        if s not in diverged
    ]
    store.write("clients.json", json.dumps(clients).encode())
    if kept and say is not None:
        told = [one for s, seed in enumerate(kept) if s not in diverged for one in seed]
        over = "" if len(clients) == 1 else f" (of {len(clients)} seeds)"
        say(f"{sum(told)} of {len(told)} clients{over} keep the global model: their own rows speak for it")
    store.log("finished")


def _keep_own(experiment: Experiment, store: RunFolder, models: PyTree, who: list[int]) -> None:
    """Which file is whose personal model, and, where clients have chosen, what they took; the other files go."""
    config = experiment.config

    def told(s: int, k: int, i: int) -> Listed:
        return listed(trees.take(trees.take(models, s), k), turn_of(config.run.rounds, i, 0, experiment.key[s]))

    of = {
        str(seed): {experiment.client_names[i]: told(s, k, i) for k, i in enumerate(who)}
        for s, seed in enumerate(seeds_of(config))
    }
    store.write(LIST, text_of(of, bool(config.run.personal_check)))
    assert experiment.own is not None
    experiment.own.prune(names_in(models))


def lost_replies(state: State, s: int) -> list[dict[str, int]]:
    """Of seed number s: how many replies of which client did not count although they came."""
    if not isinstance(state.replies, Replies):  # between sites the ledger counts
        return []
    counts = {kind: np.asarray(getattr(state.replies, kind)[s]) for kind in ("not_finite", "too_large")}
    lost = np.flatnonzero(sum(counts.values())).tolist()
    return [{"client": i} | {kind: int(count[i]) for kind, count in counts.items()} for i in lost]


def _per_client(experiment: Experiment, scores: Scores, s: int) -> dict[str, list[float | None]]:
    """Lists in the order of the evaluated clients; errors of a regression in the label's own unit."""
    told = {
        "held": _numbers(scores.held[s]),
        "personal": _numbers(scores.personal.accuracy[s]),
        "global": _numbers(scores.shared.accuracy[s]),
    }
    unit = experiment.unit(s)
    if unit is None:
        return told
    errors = {"personal_rmse": scores.personal.rmse, "global_rmse": scores.shared.rmse}
    return told | {name: _numbers(values[s] * unit) for name, values in errors.items()}


def _kept_global(experiment: Experiment, x: PyTree | None, scores: Scores) -> list[list[bool]]:
    """[seeds][c] who has the global model because it has chosen it; [] where nobody chooses, or no personal models
    are kept that could be compared."""
    config, models = experiment.config, jax.tree.leaves(scores.models)
    chooses = config.run.personal_check > 0 and "personal" in registry.part_names(config.method.entry)
    if not chooses or x is None or experiment.own is not None or not models:
        return []
    pairs = [(np.asarray(y), np.asarray(a)[:, None]) for y, a in zip(models, jax.tree.leaves(x), strict=True)]
    return np.all([np.all(y == a, axis=tuple(range(2, y.ndim))) for y, a in pairs], axis=0).tolist()


def _mean(values: Values) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _number(value: Values | np.number | float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _numbers(values: Values) -> list[float | None]:
    return [_number(value) for value in values]
