"""One run: advance, evaluate, store, again. Survives being stopped, and says so when it diverges."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import trees
from ..engines import State, compiled
from ..errors import NOTHING, FedtierError
from . import census
from . import config as configuration
from .assemble import Experiment, assemble
from .config import Config
from .metrics import Scores, evaluator, traffic
from .profile import Profile
from .progress import Progress
from .record import finish, row_of
from .stopping import Stopped, stop_signals
from .store import DIVERGED_FILE, HINT_DAMAGED, Store
from .track import check as check_trackers
from .track import open_trackers

DIVERGED = 1000.0  # a loss so many times that of round 0 will not come back


class Result(NamedTuple):
    folder: Path
    config: Config
    final: list[dict[str, Any]]  # one row per seed
    experiment: Experiment
    state: State


def run(
    config: Config,
    folder: Path,
    *,
    progress: Progress,
    experiment: Experiment | None = None,
    track: Sequence[str] = (),
    profile: Profile | None = None,
) -> Result:
    """Runs `config` into the new `folder`; `track` names trackers that get every row too, `profile` gets the times."""
    check_trackers(track)
    profile = profile or Profile()
    if experiment is None:
        with profile.span("data"):
            experiment = assemble(config)
    Store.reserve(folder)
    return _tracked(experiment, folder, lambda: Store.create(folder, config), progress, track, profile, resumed=False)


def resume(folder: Path, *, progress: Progress, track: Sequence[str] = ()) -> Result:
    """Goes on from the last checkpoint, bit for bit as if nothing had happened (on the same device); `track` as in `run`,
    for the rows from there on."""
    check_trackers(track)
    if not (folder / "config.toml").exists():
        raise FedtierError("DIR", str(folder), "holds no run", "give the folder that `fedtier run` named")
    if (folder / "wire.json").exists():
        raise FedtierError("DIR", str(folder), "holds a run between sites", "start its server again, with the same folder")
    config = configuration.read(folder / "config.toml")
    return _tracked(assemble(config), folder, lambda: Store(folder), progress, track, Profile(), resumed=True)


def _tracked(
    experiment: Experiment,
    folder: Path,
    store: Callable[[], Store],
    progress: Progress,
    track: Sequence[str],
    profile: Profile,
    *,
    resumed: bool,
) -> Result:
    tracker = open_trackers(track, experiment.config, folder)
    finished = False
    try:
        result = _play(experiment, store(), progress, profile, resumed=resumed, log=tracker.log)
        finished = True
    finally:
        tracker.close(finished)
    return result


def _play(
    experiment: Experiment,
    store: Store,
    progress: Progress,
    profile: Profile,
    *,
    resumed: bool,
    log: Callable[[list], None] = lambda rows: None,
) -> Result:
    config, plan, seeds = experiment.config, experiment.plan, experiment.config.run.seeds
    rounds = config.run.rounds
    stops = _stops(config)
    capacity = max(1, max(b - a for a, b in zip([0, *stops], stops, strict=False)) if stops else 1)
    engine = compiled(experiment.method, capacity=capacity, seeds=True)
    state = engine.init(experiment.x, experiment.federation)
    evaluate, bytes_per_message = evaluator(experiment), traffic(experiment, state)
    all_finite = jax.jit(trees.all_finite)

    first, written, spent = 0, 0, 0.0
    if resumed and (store.folder / "checkpoint.safetensors").exists():
        state, words = store.read_arrays("checkpoint.safetensors", like=state)
        if words.get("config") != config.digest():
            rule = f"belongs to another run: its configuration has the digest {words.get('config')}, not {config.digest()}"
            raise FedtierError(str(store.folder / "checkpoint.safetensors"), NOTHING, rule, HINT_DAMAGED)
        state = jax.tree.map(jax.numpy.asarray, state)
        first, written, spent = int(words["round"]), int(words["rows"]), float(words["seconds"])
    if resumed:
        store.keep_rows(written)
    if not resumed or not (store.folder / "plan.safetensors").exists():
        store.write_arrays("plan.safetensors", plan)
    if not resumed or not (store.folder / "partition.json").exists():
        store.write("partition.json", census.of_experiment(experiment).to_json())

    clock = time.perf_counter()
    with profile.span("compile", "rounds"):
        state, _ = engine.advance(state, experiment.federation, plan, experiment.key, first, 0)  # moves nothing
        jax.block_until_ready(state)
    with profile.span("compile", "evaluation, and the first one"):
        scores = evaluate(state, first)
    compile_seconds = time.perf_counter() - clock
    progress.start(rounds, first, f"{config.method.name} on {config.data.name}", compile_seconds)

    clock = time.perf_counter()

    def record(number: int, scores: Scores) -> None:
        nonlocal written
        seconds = {"compile": compile_seconds, "run": spent + time.perf_counter() - clock}
        rows = [row_of(experiment, bytes_per_message, scores, s, number, seconds) for s in range(seeds)]
        with profile.span("checkpoints", "metrics"):
            store.append(rows)
            log(rows)
        written += len(rows)
        progress.update(number, rows)

    def checkpoint(number: int) -> None:
        seconds = spent + time.perf_counter() - clock
        words = {"round": number, "rows": written, "seconds": seconds, "config": config.digest()}
        with profile.span("checkpoints", f"round {number}"):
            store.write_arrays("checkpoint.safetensors", state, **words)

    def diverged(number: int, why: str) -> Diverged:
        """Puts the state after the last sound stop on disk: rounds since the checkpoint are played again."""
        nonlocal state
        progress.stop()
        state, words = store.read_arrays("checkpoint.safetensors", like=state)
        state, last = jax.tree.map(jax.numpy.asarray, state), int(words["round"])
        for stop in [stop for stop in stops if last < stop <= first]:
            state, _ = engine.advance(state, experiment.federation, plan, experiment.key, last, stop - last)
            last = stop
        checkpoint(last)
        return _diverged(store, first, number, why)

    if written == 0:
        record(0, scores)
        checkpoint(0)
    start = max((row[key] or 0.0 for row in store.rows()[:seeds] for key in ("f1", "global_loss")), default=0.0)
    with stop_signals() as stopped:
        for number in [stop for stop in stops if stop > first]:
            with profile.span("rounds", f"{first} to {number}"):
                state, _ = engine.advance(state, experiment.federation, plan, experiment.key, first, number - first)
                sound = bool(all_finite(state))
            if not sound:
                raise diverged(number, "the state is no longer finite")
            if number % config.run.eval_every == 0 or number == rounds:
                with profile.span("evaluation", f"round {number}"):
                    scores = evaluate(state, number)
                loss = _worst_loss(scores)
                if loss > DIVERGED * max(1.0, start):
                    raise diverged(number, f"the loss rose from {start:.3g} to {loss:.3g}")
                record(number, scores)
            due = number % config.run.checkpoint_every == 0 or number == rounds
            if due or stopped():
                checkpoint(number)
            first = number
            if stopped() and number < rounds:
                progress.stop()
                store.log(f"stopped after round {number}")
                raise Stopped(store.folder, number)
    progress.stop()
    finish(experiment, store, state, scores)
    return Result(store.folder, config, store.rows()[-seeds:], experiment, state)


def _stops(config: Config) -> list[int]:
    """The rounds after which something happens."""
    rounds = config.run.rounds
    marks = set(range(config.run.eval_every, rounds, config.run.eval_every))
    marks |= set(range(config.run.checkpoint_every, rounds, config.run.checkpoint_every))
    return [*sorted(marks), rounds] if rounds else []


class Diverged(FedtierError):
    """The run has no end with these settings; the state before is on disk."""


def _diverged(store: Store, first: int, number: int, why: str) -> Diverged:
    store.write(DIVERGED_FILE, json.dumps({"after": first, "by": number, "why": why}).encode())
    store.log(f"diverged between rounds {first} and {number}: {why}")
    saved = f"the state after round {first} is in {store.folder}/checkpoint.safetensors"
    hint = f"lower method.server_lr, method.client_lr or method.penalty; {saved}"
    return Diverged("run", f"rounds {first} to {number}", f"diverged: {why}", hint)


def _worst_loss(scores: Scores) -> float:
    """The largest loss of any seed, on the server's rows or the test rows: a model that fits the former may be wild."""
    known = [float(loss) for loss in (*scores.f1, *scores.global_loss) if not np.isnan(loss)]
    return max(known, default=0.0)  # local_only has no global model, hence no loss
