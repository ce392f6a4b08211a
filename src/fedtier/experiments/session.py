"""A run in progress: advance, evaluate, record, again. Survives being stopped, and says so when it diverges."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from .. import trees
from ..engines import Replies, State, finite_seeds, global_models, keep_seeds
from ..errors import NOTHING, FedtierError, FedtierWarning, require
from ..methods.attacked import SCALES
from ..own_code.naming import short
from ..own_code.own_models.kept import OWN, names_in
from ..storage.array_files import ArrayFile
from ..storage.files import read_generations
from ..storage.json_value import Json
from .assemble import Experiment
from .config import preset_words
from .data import seeds_of
from .divergence import Diverged, steering, too_large, unheard
from .label_counts import labels_of_experiment
from .metric_row import Row
from .metrics import Scores, evaluator, traffic
from .models import NETS
from .newcomers import newcomer_evaluator, newcomer_row
from .privacy_page import as_object, short_words, stated
from .profile import Profile
from .progress import Progress
from .record import finish, row_of
from .rules import unread_words
from .run_folder import CHECKPOINT, DIVERGED_FILE, FORMAT, HINT_DAMAGED, DivergedSeed, RunFolder
from .stopping import Stopped, stop_signals
from .tables import Config
from .uncompiled import engine_of
from .verdicts import Verdict, check_judges, verdict_row, verdicts

MOST_NAMED = 5  # clients in a warning about lost replies
PREPARATION = "preprocessing.json"
PRIVACY = "privacy.json"  # what may become known, to whom
ATTACK = "attack.json"  # who attacks under which seed


class Listener(NamedTuple):
    """Somebody who is told of every row as it is written, a tracker for example."""

    rows: Callable[[list[Row]], None] = lambda rows: None
    close: Callable[[bool], None] = lambda finished: None


Listen = Callable[[Config, Path], Listener]


def nobody(config: Config, folder: Path) -> Listener:
    """The listener of a run that nobody listens to."""
    return Listener()


class Result(NamedTuple):
    """A finished run: where it is, its last rows of metrics, and everything that is still in memory."""

    folder: Path
    config: Config
    final: list[Row]  # one row per seed that has not diverged
    experiment: Experiment
    state: State


class _ShortRing(Exception):
    """A checkpoint that a longer run cannot go on from."""


class Session:
    """A run in progress: the experiment, where it is written, and how far it is."""

    def __init__(self, experiment: Experiment, files: RunFolder, progress: Progress, profile: Profile) -> None:
        self.experiment, self.files, self.progress, self.profile = experiment, files, progress, profile
        self.judges = check_judges(experiment)
        if experiment.own is not None:
            experiment.own.move_to(files.folder / OWN)
        self.stops = stops(experiment.config)
        capacity = max((b - a for a, b in zip([0, *self.stops], self.stops, strict=False)), default=1)
        self.engine = engine_of(experiment, max(1, capacity))
        self.state = self.engine.init(experiment.x, experiment.federation)
        self.round, self.written, self.spent = 0, 0, 0.0  # rounds played, rows written, seconds before this process
        self.latest: Scores | None = None  # of the last evaluation
        self.diverged: dict[int, DivergedSeed] = {}  # by the seed's place: they stay in the state of their last sound stop

    def restore(self) -> None:
        """Goes back to the checkpoint on disk, if there is one: the state, and the rows that were written by then. Where it, or
        a row, is damaged: to the generation before it."""
        try:
            found = read_generations(self.files.folder / CHECKPOINT, self._read_checkpoint, self._say)
        except _ShortRing as short:
            self._say(f"{short}: starts again from round 0, to the same numbers")
            self.files.keep_rows([])
            return
        if found is None:
            if self.files.sound_rows()[0]:
                self._say("there is no checkpoint: starts again from round 0")
            self.files.keep_rows([])
            return
        self.state, words, rows = found
        self.round, self.spent = int(words["round"]), float(words["seconds"])
        self._restore_diverged(words)
        due = self.files.due_rows(rows, self.experiment.config.run)
        self.written = len(due)
        if len(due) < len(rows):  # extended: the checkpoint says so before the rows go
            self.clock = time.perf_counter()
            self._checkpoint()
        self.files.keep_rows(due)

    def _read_checkpoint(self, path: Path) -> tuple[State, dict[str, str], list[Row]]:
        """The state, the words and the rows of a checkpoint of this very run."""
        self._look_at_ring(path)
        state, words = self.files.read_arrays(path.name, like=self.state, newer=("replies.",))
        config = self.experiment.config
        digest = config.digest(endless=True)
        if words.get("config") not in (digest, config.digest()):
            rule = f"belongs to another run: its configuration has the digest {words.get('config')}, not {digest}"
            raise FedtierError(str(path), NOTHING, rule, HINT_DAMAGED)
        last, rounds = int(words["round"]), config.run.rounds
        require(last <= rounds, "run.rounds", rounds, f"the run has played {last} already", "a run is never shortened")
        return jax.tree.map(jax.numpy.asarray, state), words, self.files.rows(int(words["rows"]))

    def _look_at_ring(self, path: Path) -> None:
        """Raises _ShortRing for a checkpoint of this run that remembers fewer broadcasts than the run needs now that it is
        longer: somebody in it works for longer than anybody did before."""
        file, needed = ArrayFile(path, FORMAT, HINT_DAMAGED), self.experiment.plan.history
        kept = [shape[1] for name, shape in file.shapes.items() if name.split(".")[0] == "ring"]
        ours = file.words.get("config") == self.experiment.config.digest(endless=True)
        if ours and kept and kept[0] < needed:
            raise _ShortRing(f"{path} remembers {kept[0]} broadcasts, the run needs {needed} now that it is longer")

    def _restore_diverged(self, words: dict[str, str]) -> None:
        """The seeds that ended by then, as the checkpoint says; the file beside it is mended if it says otherwise."""
        if "diverged" in words:
            gone = [DivergedSeed(*seed) for seed in json.loads(words["diverged"])]
            if gone:
                self.files.write_diverged_seeds(gone)
        else:  # written before the checkpoint told
            gone = [seed for seed in self.files.diverged_seeds() if seed.by <= self.round]  # the others are found again
        seeds = seeds_of(self.experiment.config)
        self.diverged = {seeds.index(seed.seed): seed for seed in gone}

    def _say(self, line: str) -> None:
        self.files.log(line)
        self.progress.say(line)

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
        finish(self.experiment, self.files, self.state, scores, self.diverged, self.new, self._judged(scores), self._say)
        self._warn()
        config = self.experiment.config
        return Result(self.files.folder, config, self.files.final_rows(config), self.experiment, self.state)

    def _write_once(self) -> None:
        """What is known before the first round; a run that was stopped early may lack it."""
        self.files.keep_plan(self.experiment.plan, self._say)
        counts = labels_of_experiment(self.experiment)
        self.progress.say(*counts.said)
        for line in (*preset_words(self.experiment.config), *unread_words(self.experiment.config)):
            self._say(line)
        if self.experiment.method.solves and self.experiment.config.run.rounds and not np.any(self.experiment.plan.steps):
            self._say("no client makes a local step in any round: run.tau or run.stragglers leaves none")
        if self.experiment.attackers and not (self.files.folder / ATTACK).exists():
            attack = self.experiment.config.attack
            scale = SCALES[attack.kind] if attack.scale is None else attack.scale
            content = {"kind": attack.kind, "scale": scale, "attackers": self.experiment.attackers}
            self.files.write(ATTACK, json.dumps(content).encode())
        if self.experiment.config.privacy.kind != "none" and not (self.files.folder / PRIVACY).exists():
            found = stated(self.experiment)
            self.files.write(PRIVACY, json.dumps(as_object(found)).encode())
            self._say(f"privacy: {short_words(found)}; `fedtier privacy {self.files.folder}` has the rest")
        if not (self.files.folder / "partition.json").exists():
            self.files.write("partition.json", counts.to_json())
        if self.experiment.model is not None and not (self.files.folder / PREPARATION).exists():
            self.files.write(PREPARATION, json.dumps(prepared_by_seed(self.experiment)).encode())

    def _compile(self) -> Scores:
        """Compiles rounds and evaluation; the scores of the state as it is."""
        config = self.experiment.config
        self.evaluate, self.bytes_per_message = evaluator(self.experiment, self.engine), traffic(self.experiment, self.state)
        self.evaluate_new, self.verdicts = newcomer_evaluator(self.experiment), {}
        if config.model.name in NETS:
            numbers = trees.size(self.experiment.x) // len(self.experiment.plan.steps)
            name = f"{short(config.method.name)} with {config.model.name}, {numbers:,} numbers"
            self.progress.say(f"compiling {name}: for a net up to a minute or two, the first time")
        clock = time.perf_counter()
        with self.profile.span("compile", "rounds"):
            jax.block_until_ready(self._advance(self.state, self.round, 0))  # 0 rounds: nothing moves
        with self.profile.span("compile", "evaluation, and the first one"):
            scores = self.evaluate(self.state, self.round)
            self.new = self.evaluate_new(self.state, self.round)
        self.latest, self.compile_seconds = scores, time.perf_counter() - clock
        title = f"{short(config.method.name)} on {config.data.title}"
        self.progress.start(config.run.rounds, self.round, title, self.compile_seconds)
        self.clock = time.perf_counter()
        return scores

    def _advance(self, state: State, first: int, count: int) -> State:
        experiment = self.experiment
        return self.engine.advance(state, experiment.federation, experiment.plan, experiment.key, first, count)[0]

    def _stretch(self, stop: int, first_loss: float, listener: Listener) -> Scores | None:
        """Rounds up to `stop`; the scores there if it is time for them. Raises Diverged when no seed is left."""
        config = self.experiment.config
        with self.profile.span("rounds", f"{self.round} to {stop}"):
            state = self._advance(self.state, self.round, stop - self.round)
            finite = finite_seeds(state)
        wild = {s: "the state is no longer finite" for s in np.flatnonzero(~finite).tolist()}
        wild = unheard(self.experiment, state, stop) | wild
        scores = None
        if stop % config.run.eval_every == 0 or stop == config.run.rounds:
            with self.profile.span("evaluation", f"round {stop}"):
                self.latest = scores = self.evaluate(state, stop)
            wild = too_large(scores, first_loss) | wild
        self._leave_behind(wild, stop)
        if self.diverged:
            going = np.asarray([s not in self.diverged for s in range(config.run.seeds)])
            state = keep_seeds(going, state, self.state)
        self.state, self.round = state, stop
        if scores is not None:
            self._record(scores, listener)
        return scores

    def _record(self, scores: Scores, listener: Listener) -> None:
        seconds = {"compile": self.compile_seconds, "run": self._seconds()}
        seeds = [s for s in range(self.experiment.config.run.seeds) if s not in self.diverged]
        self.new = self.evaluate_new(self.state, self.round)
        rows: list[Row] = [
            {
                **row_of(self.experiment, self.bytes_per_message, scores, s, self.round, seconds),
                **newcomer_row(self.new, s, self.experiment.unit(s)),
                **verdict_row(self._judged(scores).get(s, [])),
            }
            for s in seeds
        ]
        with self.profile.span("checkpoints", "metrics"):
            self.files.append(rows)
            listener.rows(rows)
        self.written += len(rows)
        self.progress.update(self.round, rows)

    def _judged(self, scores: Scores) -> dict[int, list[Verdict]]:
        """What run.metrics say of the final models; nothing before the last round."""
        if self.round < self.experiment.config.run.rounds or self.verdicts:
            return self.verdicts
        x = global_models(self.experiment.method, self.state)
        models = scores.models if self.experiment.own is None else ()
        self.verdicts = verdicts(self.experiment, self.judges, x, models, self.diverged)
        return self.verdicts

    def _checkpoint_is_due(self) -> bool:
        run = self.experiment.config.run
        return self.round % run.checkpoint_every == 0 or self.round == run.rounds

    def _checkpoint(self) -> None:
        digest = self.experiment.config.digest(endless=True)
        words = {"round": self.round, "rows": self.written, "seconds": self._seconds(), "config": digest}
        words["diverged"] = json.dumps([[*seed] for seed in self.diverged.values()])
        with self.profile.span("checkpoints", f"round {self.round}"):
            self.files.write_arrays(CHECKPOINT, self.state, keep_previous=True, **words)
            if self.experiment.own is not None:
                self.experiment.own.prune(names_in((self.state.clients, () if self.latest is None else self.latest.models)))

    def _leave_behind(self, wild: dict[int, str], stop: int) -> None:
        """Seeds that are found wild at `stop` end in the state of the last stop; with the last of them the run does."""
        new = {s: why for s, why in wild.items() if s not in self.diverged}
        if len(new) + len(self.diverged) == self.experiment.config.run.seeds:
            raise self._diverged(stop, next(iter(new.values())))
        for s, why in new.items():
            self.diverged[s] = DivergedSeed(seeds_of(self.experiment.config)[s], self.round, stop, why)
            self.files.log(self.diverged[s].words())
        if new:
            self.files.write_diverged_seeds(list(self.diverged.values()))

    def _warn(self) -> None:
        """Says which seeds and which replies did not count."""
        for seed in self.diverged.values():
            warnings.warn(f"{seed.words()}; it has no final row, the other seeds went on", FedtierWarning, stacklevel=2)
        assert isinstance(self.state.replies, Replies)
        for s, seed in enumerate(seeds_of(self.experiment.config)):
            lines = jax.tree.map(lambda a, s=s: a[s], self.state.replies).words() if s not in self.diverged else []
            for line in lines:
                self.files.log(f"seed {seed}: {line}")
            if lines:
                rest = f"; and {len(lines) - MOST_NAMED} clients more, in run.log" if len(lines) > MOST_NAMED else ""
                warnings.warn(f"seed {seed}: {'; '.join(lines[:MOST_NAMED])}{rest}", FedtierWarning, stacklevel=2)

    def _diverged(self, stop: int, why: str) -> Diverged:
        """Leaves the state after the last sound stop on disk."""
        self.progress.stop()
        self._checkpoint()
        self.files.write(DIVERGED_FILE, json.dumps({"after": self.round, "by": stop, "why": why}).encode())
        self.files.log(f"diverged between rounds {self.round} and {stop}: {why}")
        saved = f"the state after round {self.round} is in {self.files.folder / CHECKPOINT}"
        known = steering(self.experiment.config)
        hint = f"lower {' or '.join(f'method.{key}' for key in known)}; {saved}" if known else saved
        return Diverged("run", f"rounds {self.round} to {stop}", f"diverged: {why}", hint)

    def _first_loss(self) -> float:
        rows = self.files.rows()[: self.experiment.config.run.seeds]
        return max((row[key] or 0.0 for row in rows for key in ("f1", "global_loss")), default=0.0)

    def _seconds(self) -> float:
        return self.spent + time.perf_counter() - self.clock


def prepared_by_seed(experiment: Experiment) -> dict[str, Json]:
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
