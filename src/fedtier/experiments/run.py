"""One run: advance, evaluate, record, again. Survives being stopped, and says so when it diverges."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import trees
from ..engines import State, compiled
from ..errors import NOTHING, FedtierError
from .assemble import Experiment, assemble
from .config import Config, load_config
from .data import seeds_of
from .label_counts import labels_of_experiment
from .metrics import Scores, evaluator, traffic
from .profile import Profile
from .progress import Progress
from .record import finish, row_of
from .run_folder import DIVERGED_FILE, HINT_DAMAGED, RunFolder, new_folder
from .stopping import Stopped, stop_signals

DIVERGED = 1000.0  # a loss so many times that of round 0 will not come back
CHECKPOINT = "checkpoint.safetensors"
PREPARATION = "preprocessing.json"


class Listener(NamedTuple):
    """Somebody who is told of every row as it is written, a tracker for example."""

    rows: Callable[[list[dict[str, Any]]], None] = lambda rows: None
    close: Callable[[bool], None] = lambda finished: None


Listen = Callable[[Config, Path], Listener]


def nobody(config: Config, folder: Path) -> Listener:
    """The listener of a run that nobody listens to."""
    return Listener()


class Result(NamedTuple):
    """A finished run: where it is, its last rows of metrics, and everything that is still in memory."""

    folder: Path
    config: Config
    final: list[dict[str, Any]]  # one row per seed
    experiment: Experiment
    state: State


class Diverged(FedtierError):
    """The run has no end with these settings; the state before is on disk."""


def run_experiment(
    config: Config,
    folder: Path | None = None,
    *,
    progress: Progress,
    experiment: Experiment | None = None,
    listen: Listen = nobody,
    profile: Profile | None = None,
) -> Result:
    """Runs `config` into `folder`, a new one; by default runs/DATE-METHOD-DATA. `listen` opens a listener once the folder
    exists, `profile` gets the times."""
    profile = profile or Profile()
    if experiment is None:
        with profile.span("data"):
            experiment = assemble(config)
    with RunFolder(folder or new_folder(f"{config.method.name}-{config.data.name}")).held() as files:
        return begin(experiment, files, progress=progress, listen=listen, profile=profile)


def resume_experiment(folder: Path, *, progress: Progress, listen: Listen = nobody) -> Result:
    """Goes on from the last checkpoint, bit for bit as if nothing had happened (on the same device); a listener hears
    the rows from there on."""
    if not (folder / "config.toml").exists():
        raise FedtierError("DIR", str(folder), "holds no run", "give the folder that `fedtier run` named")
    if (folder / "wire.json").exists():
        raise FedtierError("DIR", str(folder), "holds a run between sites", "start its server again, with the same folder")
    with RunFolder(folder).held() as files:
        return go_on(assemble(load_config(folder / "config.toml")), files, progress=progress, listen=listen)


def begin(
    experiment: Experiment, files: RunFolder, *, progress: Progress, listen: Listen = nobody, profile: Profile | None = None
) -> Result:
    """The run from its start, in a folder that this process holds."""
    files.begin(experiment.config, experiment.dataset.digest())
    return _heard(Session(experiment, files, progress, profile or Profile()), listen)


def go_on(experiment: Experiment, files: RunFolder, *, progress: Progress, listen: Listen = nobody) -> Result:
    """The run from its last checkpoint, in a folder that this process holds."""
    session = Session(experiment, files, progress, Profile())
    session.restore()
    return _heard(session, listen)


def _heard(session: Session, listen: Listen) -> Result:
    listener = listen(session.experiment.config, session.files.folder)
    finished = False
    try:
        result = session.play(listener)
        finished = True
    finally:
        listener.close(finished)
    return result


class Session:
    """A run in progress: the experiment, where it is written, and how far it is."""

    def __init__(self, experiment: Experiment, files: RunFolder, progress: Progress, profile: Profile) -> None:
        self.experiment, self.files, self.progress, self.profile = experiment, files, progress, profile
        self.stops = stops(experiment.config)
        capacity = max((b - a for a, b in zip([0, *self.stops], self.stops, strict=False)), default=1)
        self.engine = compiled(experiment.method, capacity=max(1, capacity), seeds=True)
        self.state = self.engine.init(experiment.x, experiment.federation)
        self.round, self.written, self.spent = 0, 0, 0.0  # rounds played, rows written, seconds before this process

    def restore(self) -> None:
        """Goes back to the checkpoint on disk, if there is one: the state, and the rows that were written by then."""
        if (self.files.folder / CHECKPOINT).exists():
            words = self._load_checkpoint()
            self.round, self.written, self.spent = int(words["round"]), int(words["rows"]), float(words["seconds"])
        self.files.keep_rows(self.written)

    def play(self, listener: Listener) -> Result:
        """From where it stands to the last round."""
        self._write_once()
        scores = self._compile()
        if self.written == 0:
            self._record(scores, listener)
            self._checkpoint()
        first_loss = self._first_loss()
        with stop_signals() as stopped:
            for stop in [stop for stop in self.stops if stop > self.round]:
                scores = self._stretch(stop, first_loss, listener) or scores
                if self._checkpoint_is_due() or stopped():
                    self._checkpoint()
                if stopped() and stop < self.stops[-1]:
                    self.progress.stop()
                    self.files.log(f"stopped after round {stop}")
                    raise Stopped(self.files.folder, stop)
        self.progress.stop()
        finish(self.experiment, self.files, self.state, scores)
        config = self.experiment.config
        return Result(self.files.folder, config, self.files.final_rows(config), self.experiment, self.state)

    def _write_once(self) -> None:
        """What is known before the first round; a run that was stopped early may lack it."""
        if not (self.files.folder / "plan.safetensors").exists():
            self.files.write_arrays("plan.safetensors", self.experiment.plan)
        counts = labels_of_experiment(self.experiment)
        self.progress.say(*counts.said)
        if not (self.files.folder / "partition.json").exists():
            self.files.write("partition.json", counts.to_json())
        if self.experiment.model is not None and not (self.files.folder / PREPARATION).exists():
            self.files.write(PREPARATION, json.dumps(prepared_by_seed(self.experiment)).encode())

    def _compile(self) -> Scores:
        """Compiles rounds and evaluation; the scores of the state as it is."""
        config = self.experiment.config
        self.evaluate, self.bytes_per_message = evaluator(self.experiment, self.engine), traffic(self.experiment, self.state)
        self.all_finite = jax.jit(trees.all_finite)
        clock = time.perf_counter()
        with self.profile.span("compile", "rounds"):
            jax.block_until_ready(self._advance(self.state, self.round, 0))  # 0 rounds: nothing moves
        with self.profile.span("compile", "evaluation, and the first one"):
            scores = self.evaluate(self.state, self.round)
        self.compile_seconds = time.perf_counter() - clock
        title = f"{config.method.name} on {config.data.title}"
        self.progress.start(config.run.rounds, self.round, title, self.compile_seconds)
        self.clock = time.perf_counter()
        return scores

    def _advance(self, state: State, first: int, count: int) -> State:
        experiment = self.experiment
        return self.engine.advance(state, experiment.federation, experiment.plan, experiment.key, first, count)[0]

    def _stretch(self, stop: int, first_loss: float, listener: Listener) -> Scores | None:
        """Rounds up to `stop`; the scores there if it is time for them. A state that is lost raises Diverged."""
        config = self.experiment.config
        with self.profile.span("rounds", f"{self.round} to {stop}"):
            state = self._advance(self.state, self.round, stop - self.round)
            sound = bool(self.all_finite(state))
        if not sound:
            raise self._diverged(stop, "the state is no longer finite")
        scores = None
        if stop % config.run.eval_every == 0 or stop == config.run.rounds:
            with self.profile.span("evaluation", f"round {stop}"):
                scores = self.evaluate(state, stop)
            loss = _worst_loss(scores)
            if loss > DIVERGED * max(1.0, first_loss):
                raise self._diverged(stop, f"the loss rose from {first_loss:.3g} to {loss:.3g}")
        self.state, self.round = state, stop
        if scores is not None:
            self._record(scores, listener)
        return scores

    def _record(self, scores: Scores, listener: Listener) -> None:
        seconds = {"compile": self.compile_seconds, "run": self._seconds()}
        seeds = range(self.experiment.config.run.seeds)
        rows = [row_of(self.experiment, self.bytes_per_message, scores, s, self.round, seconds) for s in seeds]
        with self.profile.span("checkpoints", "metrics"):
            self.files.append(rows)
            listener.rows(rows)
        self.written += len(rows)
        self.progress.update(self.round, rows)

    def _checkpoint_is_due(self) -> bool:
        run = self.experiment.config.run
        return self.round % run.checkpoint_every == 0 or self.round == run.rounds

    def _checkpoint(self) -> None:
        digest = self.experiment.config.digest()
        words = {"round": self.round, "rows": self.written, "seconds": self._seconds(), "config": digest}
        with self.profile.span("checkpoints", f"round {self.round}"):
            self.files.write_arrays(CHECKPOINT, self.state, **words)

    def _load_checkpoint(self) -> dict[str, str]:
        state, words = self.files.read_arrays(CHECKPOINT, like=self.state)
        digest = self.experiment.config.digest()
        if words.get("config") != digest:
            rule = f"belongs to another run: its configuration has the digest {words.get('config')}, not {digest}"
            raise FedtierError(str(self.files.folder / CHECKPOINT), NOTHING, rule, HINT_DAMAGED)
        self.state = jax.tree.map(jax.numpy.asarray, state)
        return words

    def _diverged(self, stop: int, why: str) -> Diverged:
        """Leaves the state after the last sound stop on disk."""
        self.progress.stop()
        self._checkpoint()
        self.files.write(DIVERGED_FILE, json.dumps({"after": self.round, "by": stop, "why": why}).encode())
        self.files.log(f"diverged between rounds {self.round} and {stop}: {why}")
        saved = f"the state after round {self.round} is in {self.files.folder / CHECKPOINT}"
        hint = f"lower method.server_lr, method.client_lr or method.penalty; {saved}"
        return Diverged("run", f"rounds {self.round} to {stop}", f"diverged: {why}", hint)

    def _first_loss(self) -> float:
        rows = self.files.rows()[: self.experiment.config.run.seeds]
        return max((row[key] or 0.0 for row in rows for key in ("f1", "global_loss")), default=0.0)

    def _seconds(self) -> float:
        return self.spent + time.perf_counter() - self.clock


def prepared_by_seed(experiment: Experiment) -> dict[str, Any]:
    """How each seed's rows were prepared, by seed: `Preparation.from_json` reads one back."""
    dataset = experiment.dataset
    found = dataset.preparations or (dataset.preparation,) * experiment.config.run.seeds
    return {str(seed): json.loads(one.to_json()) for seed, one in zip(seeds_of(experiment.config), found, strict=True)}


def stops(config: Config) -> list[int]:
    """The rounds after which something happens, the last one included."""
    rounds = config.run.rounds
    marks = set(range(config.run.eval_every, rounds, config.run.eval_every))
    marks |= set(range(config.run.checkpoint_every, rounds, config.run.checkpoint_every))
    return [*sorted(marks), rounds] if rounds else []


def _worst_loss(scores: Scores) -> float:
    """The largest loss of any seed, on the server's rows or the test rows: a model that fits the former may be wild."""
    known = [float(loss) for loss in (*scores.f1, *scores.global_loss) if not np.isnan(loss)]
    return max(known, default=0.0)  # local_only has no global model, hence no loss
