"""ft.train: one method on federated rows, all seeds at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compilation import use_all_cores
from ..experiments.config import validate
from ..experiments.progress import Progress
from ..experiments.run import run_experiment
from ..experiments.stopping import Stopped
from ..experiments.tables import Config
from ..reports.progress import fitting
from ..reports.tracking import trackers
from .choices import MethodChoice, as_method, as_model
from .data import Federated, federate
from .result import Result
from .scratch import Scratch
from .words import as_arguments, given, word


def train(
    method: Any,
    data: Any,
    *,
    model: Any = None,
    clients: Sequence[Any] = (),
    rounds: int | None = None,
    participation: float | None = None,
    tau: float | Sequence[float] | None = None,
    seeds: int | None = None,
    stragglers: float | None = None,
    dropouts: float | None = None,
    eval_every: int | None = None,
    folder: str | Path | None = None,
    progress: bool | Progress | None = None,
    track: Sequence[str] = (),
    **options: Any,
) -> Result:
    """Trains `method` on `data`: the same run, to the last digit, as `fedtier run` with the same settings, on all cores unless
    JAX has computed something before.

    method      ft.zo_hfl(...), any other of ft's methods, a name, or a function of your own: method(problem) -> Method
    data        what `ft.federate` returned, or what it takes
    model       ft.mlp(hidden=64) and the like, a path, or a model of your own (`ft.model`); linear by default
    clients     models of the clients' own, one for each or one for all: words as in a configuration's [clients], classifiers of
                scikit-learn, or objects with fit(rows, guidance) and predict_proba(inputs); for ft.codistil, fedmd and feddf
    rounds, participation, tau, seeds, ...    the keys of [run]; what is left out has the default of a configuration. metrics=
                ["macro_f1", my_metric] adds scores at the end, by name or by a function of truth and prediction
    folder      a new folder for the run, which `fedtier report`, `resume` and `predict` read; without it nothing is kept on
                disk longer than the result lives
    progress    a bar: by default where a person is watching, in a terminal or a notebook
    track       "tensorboard", "mlflow": send every row there too
    """
    use_all_cores()
    keys = {
        "rounds": rounds, "participation": participation, "tau": tau, "seeds": seeds, "stragglers": stragglers,
        "dropouts": dropouts, "eval_every": eval_every, **options,
    }  # fmt: skip
    federated = data if isinstance(data, Federated) else federate(data)
    config = config_of(as_method(method), federated, model, keys, clients)
    kept = Scratch() if folder is None else None
    place = kept.folder / "run" if kept else Path(str(folder))
    try:
        with as_arguments():
            found = run_experiment(config, place, progress=fitting(progress), listen=trackers(tuple(track)))
    except Stopped:
        if folder is not None:
            raise
        raise KeyboardInterrupt from None  # there is no folder to go on from
    return Result(found, kept)


def config_of(method: MethodChoice, data: Federated, model: Any, run: dict[str, Any], clients: Sequence[Any] = ()) -> Config:
    """The configuration of a run."""
    tables = {"data": data.table, "model": as_model(model).table, "method": method.table, "run": run_table(data, run)}
    if len(clients):
        tables["clients"] = {"models": word(list(clients))}
    with as_arguments():
        return validate(tables)


def run_table(data: Federated, run: dict[str, Any]) -> dict[str, Any]:
    """The [run] table: the seed is that of the data."""
    numbers = {key: float(value) if key == "tau" and isinstance(value, int) else value for key, value in given(run).items()}
    return {"seed": data.seed} | numbers
