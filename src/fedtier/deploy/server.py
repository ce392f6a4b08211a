"""A run between sites, at the server: starts it or goes on with it, whatever it died of, and stores it as any other run.

Beside the files of a simulation (see `store`) the folder has wire.json, the run's id and sites, and sites.json, how often
each site's replies counted, failed to come, or were refused; between machines also record.jsonl, every letter that went and
came (see `protocol.record`). bytes_down and bytes_up are what went over the wire, without the seals of signed letters.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compilation import jitted
from ..datasets import Preparation
from ..engines import State
from ..engines.engine import check_federation, initial_state
from ..errors import NOTHING, require
from ..experiments.assemble import Experiment
from ..experiments.budgets import epsilon_after
from ..experiments.metric_row import Row
from ..experiments.metrics import Quality, Scores, evaluated_clients, global_scores
from ..experiments.progress import Progress
from ..experiments.record import Spent, finish, row
from ..experiments.run_folder import CHECKPOINT, FORMAT, METRICS, PLAN, RunFolder
from ..experiments.session import Result
from ..experiments.stopping import Stopped
from ..experiments.verdicts import check_judges, verdict_row, verdicts
from ..methods.summed import known_sums
from ..protocol import (
    Arrivals,
    Ask,
    AsyncDriver,
    Driver,
    Interrupted,
    Job,
    Ledger,
    MaskedDriver,
    Record,
    ServerSeal,
    drive,
    message_shapes,
)
from ..protocol.secure.messages import Words
from ..storage.array_files import ArrayFile
from ..storage.files import Damaged, read_generations, set_aside
from .extension import extend
from .masks import count_of, masking_of, secret_key
from .privacy_words import tell_privacy
from .rows import open_server, specs
from .run_id import HINT, WIRE, run_id_of
from .settings import WireRun, load_run_file
from .site import brief_of


def serve_rounds(
    run_file: Path, folder: Path, ask: Ask, *, progress: Progress, stopped: Callable[[], bool] = lambda: False,
    seal: ServerSeal | None = None,
) -> Result:  # fmt: skip
    """The run that `run_file` describes, in `folder`, over `ask`; goes on where the folder's last checkpoint ends. Between
    machines `seal` signs the letters, and the folder has a record of all that came and went."""
    run = load_run_file(run_file)
    experiment, preparation = open_server(run)
    with RunFolder(folder).held() as files:
        run = run._replace(config=experiment.config)  # with the noise and the rounds of its budget, where it has one
        extend(run, files)
        run_id = run_id_of(run, files)
        return _Server(run, experiment, preparation, files, run_id, ask, progress, stopped, seal).serve()


class _Server:
    def __init__(
        self, run: WireRun, experiment: Experiment, preparation: Preparation, store: RunFolder, run_id: bytes, ask: Ask,
        progress: Progress, stopped: Callable[[], bool], seal: ServerSeal | None,
    ) -> None:  # fmt: skip
        self.run, self.experiment, self.store, self.progress = run, experiment, store, progress
        self.judges = check_judges(experiment)
        self.plan = jax.tree.map(lambda table: table[0], experiment.plan)
        self.federation = jax.tree.map(lambda a: a[0], experiment.federation._replace(arrays=()))
        self.federation = self.federation._replace(arrays=experiment.federation.arrays)
        x = jax.tree.map(lambda a: a[0], experiment.x)
        check_federation(experiment.method, self.federation)
        state = initial_state(experiment.method, x, self.federation)
        radius = run.config.method.radius
        spec = jax.tree.map(lambda a: a[0], self.federation.spec)
        client = jax.tree.map(lambda a: a[0], state.clients)
        view = self.federation.view(self.federation.server)
        shapes = message_shapes(experiment.method, state.server, client, view, spec, self.federation.clients)
        share = known_sums(experiment.method).share if run.wire.masked else None
        total = None if share is None else jax.eval_shape(share, shapes.up, spec)
        masking = masking_of(run.config, run.wire, 0 if total is None else count_of(total.value))
        key = experiment.key[0] if run.config.privacy.kind == "none" else secret_key(store)
        job = Job(
            run_id, tuple(run.wire.sites), experiment.method, self.plan, key, view,
            lambda rows: specs(rows, radius), shapes.up, brief_of(run.config, preparation, masking).text(), x,
            float(np.finfo(np.float32).max) if experiment.dataset.task == "regression" else 1.0,
            self.federation.shown(experiment.method.shows),
        )  # fmt: skip
        record = None if seal is None else Record(store.folder, durable=False)
        rules, told = run.wire.rules, {"note": self.note, "stopped": stopped, "seal": seal, "record": record}
        if run.config.privacy.kind != "none":  # no reply is judged by others'
            rules = rules._replace(magnitude=math.inf)
        first, self.shared = Ledger.first(state.server, len(run.wire.sites)), shapes.shared
        if experiment.method.buffer:
            self.driver = AsyncDriver(job, ask, rules, experiment.steps, clock=self.seconds, **told)
            size = len(run.wire.sites), run.config.run.rounds, experiment.method.buffer
            first = first._replace(arrivals=Arrivals.none(*size, shapes.up))
        elif masking is not None and total is not None:
            job = job._replace(up=Words(np.zeros(count_of(total), np.uint32)))
            self.driver = MaskedDriver(job, ask, rules, masking, total, **told)
        else:
            self.driver = Driver(job, ask, rules, **told)
        self.reached, self.written, self.evaluated, self.spent = 0, 0, 0, 0.0
        self.wire = store.folder.joinpath(WIRE).read_text(encoding="utf-8")
        self.first, self.ledger = self._resumed(first)
        if not experiment.method.buffer:  # else the order in which answers come is the plan, and is written at the end
            self.store.keep_plan(experiment.plan, self.note)
        tell_privacy(experiment, run.wire, masking, store, self.note)
        self.measure = jitted(
            lambda server, federation: global_scores(
                experiment, experiment.method.global_model(server),
                federation.view(federation.server), federation.view(federation.test),
            )
        )  # fmt: skip
        self.scores: Scores | None = None
        self.reached = self.first
        self.clock = time.perf_counter()

    def _resumed(self, first: Ledger) -> tuple[int, Ledger]:
        """The round to go on with and the ledger before it. A folder with a config.toml has had a checkpoint."""
        self.clock = time.perf_counter()
        found = self._read_checkpoint(first)
        if found is None:
            begun = (self.store.folder / "config.toml").exists()
            path = self.store.folder / CHECKPOINT
            if begun:
                raise Damaged(str(path), NOTHING, "is gone, and the sites remember the rounds that it counted", HINT)
            self.store.keep_rows([])
            self.save(first, 0)
            self.store.begin(self.run.config, self.experiment.dataset.digest())
            return 0, first
        ledger, words = found
        number, self.spent = int(words["round"]), float(words["seconds"])
        self._keep_rows(int(words["rows"]))
        ledger = ledger._replace(server=jax.tree.map(jnp.asarray, ledger.server))
        if self.written < int(words["rows"]):
            self.save(ledger, number)
        self.store.log(f"goes on after round {number}")
        return number, ledger

    def _read_checkpoint(self, like: Ledger) -> tuple[Ledger, dict[str, str]] | None:
        def read(path: Path) -> tuple[Ledger, dict[str, str]]:
            shape = like
            if isinstance(like.arrivals, Arrivals):
                names = ArrayFile(path, FORMAT, HINT).shapes
                shape = like._replace(arrivals=like.arrivals.like(names, self.shared))
            ledger, words = self.store.read_arrays(path.name, like=shape)
            require(words.get("wire", self.wire) == self.wire, str(path), NOTHING, "belongs to another run", HINT)
            rule = f"says that {words['round']} rounds were played, the run has {self.run.config.run.rounds}"
            require(0 <= int(words["round"]) <= self.run.config.run.rounds, str(path), NOTHING, rule, HINT)
            return ledger, words

        try:
            return read_generations(self.store.folder / CHECKPOINT, read, self.note)
        except Damaged as error:
            raise Damaged(error.name, error.value, error.rule, HINT) from None

    def _keep_rows(self, count: int) -> None:
        """The first `count` rows of metrics. Those that are damaged cannot be measured again: they are left out, and
        a line says so."""
        rows, damaged = self.store.sound_rows()
        damaged = [number for number in damaged if number <= count]
        kept = rows[: count - len(damaged)]
        if len(kept) < count:
            path = self.store.folder / METRICS
            said = f"lines {', '.join(map(str, damaged))} are damaged" if damaged else "is cut short"
            self.note(f"{path}: {said}; goes on with {len(kept)} of {count} rows" + set_aside(path))
        kept = self.store.due_rows(kept, self.run.config.run)  # without the row of an old end, where the run was extended
        self.store.keep_rows(kept)
        self.written = len(kept)
        self.evaluated = kept[-1]["round"] + 1 if kept else 0

    def serve(self) -> Result:
        config, rounds = self.run.config, self.run.config.run.rounds
        self.progress.start(rounds, self.first, f"{config.method.name} between {len(self.run.wire.sites)} sites", 0.0)
        try:
            ledger = drive(self.driver, self.ledger, self.first, rounds, save=self.save, evaluate=self.evaluate)
        except Interrupted:
            self.store.log("stopped")
            raise Stopped(self.store.folder, self.reached) from None
        finally:
            self.progress.stop()
        assert self.scores is not None
        if isinstance(ledger.arrivals, Arrivals):
            self.experiment = self.experiment._replace(plan=jax.tree.map(lambda table: table[None], ledger.arrivals.order))
            self.store.write_arrays(PLAN, self.experiment.plan)
        state = State(jax.tree.map(lambda a: jnp.asarray(a)[None], ledger.server), ())
        finish(self.experiment, self.store, state, self.scores)
        return Result(self.store.folder, config, self.store.final_rows(config), self.experiment, state)

    def save(self, ledger: Ledger, number: int) -> None:
        words = {"round": number, "rows": self.written, "seconds": self.seconds(), "config": self.run.config.digest()}
        self.store.write_arrays(CHECKPOINT, ledger, keep_previous=True, wire=self.wire, **words)
        self.reached = number

    def evaluate(self, ledger: Ledger, number: int) -> Ledger:
        """Asks the sites for their scores and writes a row, at the rounds where a simulation does."""
        rounds, every = self.run.config.run.rounds, self.run.config.run.eval_every
        if (number % every and number != rounds) or number < self.evaluated:
            return ledger
        who = evaluated_clients(self.experiment).tolist()
        ledger, told = self.driver.score(ledger, number, who, self.experiment.steps[number])
        nothing = (np.nan, np.nan, np.nan)
        f2, *told_quality = (np.asarray([told.get(i, nothing)[k] for i in who])[None] for k in range(3))
        known = "rmse" if self.experiment.dataset.task == "regression" else "accuracy"
        empty = Quality(*(np.full((1, len(who)), np.nan) for _ in Quality._fields))
        personal, shared = (empty._replace(**{known: value}) for value in told_quality)
        f1, loss, test = jax.tree.map(lambda a: np.asarray(a)[None], self.measure(ledger.server, self.federation))
        self.scores = Scores(f1, loss, test, f2, personal, shared, ledger.held[who][None])
        self._write(self.scores, ledger, number)
        return ledger

    def _write(self, scores: Scores, ledger: Ledger, number: int) -> None:
        steps = int(ledger.local_steps) * self.experiment.method.solves
        spent = Spent(int(ledger.bytes_down), int(ledger.bytes_up), steps)
        seconds = {"compile": 0.0, "run": self.seconds()}
        line: Row = row(scores, 0, number, self.run.config.run.seed, spent, seconds, self.experiment.unit(0))
        if number == self.run.config.run.rounds:  # of the global model: a site's rows and predictions are its own
            x = jax.tree.map(lambda a: a[None], self.experiment.method.global_model(ledger.server))
            line = {**line, **verdict_row(verdicts(self.experiment, self.judges, x, ()).get(0, []))}
        if self.run.config.privacy.kind != "none":
            line = {**line, "epsilon": epsilon_after(self.run.config, self.experiment.clients, self.experiment.sizes, number)}
        self.store.append([line])
        self.written += 1
        self.store.write("sites.json", json.dumps(_table(self.run.wire.sites, ledger), indent=1).encode())
        self.progress.update(number, [line])

    def seconds(self) -> float:
        return self.spent + time.perf_counter() - self.clock

    def note(self, line: str) -> None:
        self.store.log(line)
        self.progress.say(line)


def _table(names: list[str], ledger: Ledger) -> dict[str, Any]:
    counts = ("rows", "held", "counted", "silent", "declined", "refused", "last")
    sites: dict[str, dict[str, Any]] = {
        name: {key: int(getattr(ledger, key)[i]) for key in counts} for i, name in enumerate(names)
    }
    if isinstance(ledger.arrivals, Arrivals):
        for i, site in enumerate(sites.values()):
            site["staleness"] = int(ledger.arrivals.stale[i]) / site["counted"] if site["counted"] else None
            site["stalest"] = int(ledger.arrivals.stalest[i])
    return {"sites": sites, "bytes_aside": int(ledger.bytes_aside)}
