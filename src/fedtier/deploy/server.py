"""A run between sites, at the server: starts it or goes on with it, whatever it died of, and stores it as any other run.

Beside the files of a simulation (see `store`) the folder has wire.json, the run's id and sites, and sites.json, how often
each site's replies counted, failed to come, or were refused; between machines also record.jsonl, every letter that went and
came (see `protocol.record`). bytes_down and bytes_up are what went over the wire, without the seals of signed letters.
"""

from __future__ import annotations

import json
import secrets
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
from ..errors import require
from ..experiments.assemble import Experiment
from ..experiments.metrics import Quality, Scores, evaluated_clients, global_scores
from ..experiments.progress import Progress
from ..experiments.record import Spent, finish, row
from ..experiments.run import Result
from ..experiments.run_folder import RunFolder
from ..experiments.stopping import Stopped
from ..experiments.verdicts import check_judges, verdict_row, verdicts
from ..federation import Plan
from ..protocol import Ask, Driver, Interrupted, Job, Ledger, Record, ServerSeal, drive, message_shapes
from .rows import open_server, specs
from .settings import WireRun, load_run_file
from .site import brief_of

CHECKPOINT = "checkpoint.safetensors"


def serve_rounds(
    run_file: Path, folder: Path, ask: Ask, *, progress: Progress, stopped: Callable[[], bool] = lambda: False,
    seal: ServerSeal | None = None,
) -> Result:  # fmt: skip
    """The run that `run_file` describes, in `folder`, over `ask`; goes on where the folder's last checkpoint ends. Between
    machines `seal` signs the letters, and the folder has a record of all that came and went."""
    run = load_run_file(run_file)
    experiment, preparation = open_server(run)
    with RunFolder(folder).held() as files:
        run_id = _run_id(run, files, experiment.dataset.digest())
        return _Server(run, experiment, preparation, files, run_id, ask, progress, stopped, seal).serve()


def _run_id(run: WireRun, files: RunFolder, data: str) -> bytes:
    """The run's id: a new one unless the folder holds this very run."""
    wire = files.folder / "wire.json"
    content: dict[str, Any] = {"sites": run.wire.sites, "config": run.config.digest()}
    if not wire.exists():
        files.refuse_second_run()
        files.write("wire.json", json.dumps({"run": secrets.token_hex(16)} | content).encode())
    found = json.loads(wire.read_text(encoding="utf-8"))
    same = {key: found.get(key) for key in content} == content
    require(same, "folder", str(files.folder), "holds another run, or other sites", "choose another folder")
    if not (files.folder / "config.toml").exists():
        files.begin(run.config, data)
    return bytes.fromhex(found["run"])


class _Server:
    def __init__(
        self, run: WireRun, experiment: Experiment, preparation: Preparation, store: RunFolder, run_id: bytes, ask: Ask,
        progress: Progress, stopped: Callable[[], bool], seal: ServerSeal | None,
    ) -> None:  # fmt: skip
        self.run, self.experiment, self.store, self.progress = run, experiment, store, progress
        self.judges = check_judges(experiment)
        self.plan = Plan(*(table[0] for table in experiment.plan))
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
        job = Job(
            run_id, tuple(run.wire.sites), experiment.method, self.plan, experiment.key[0], view,
            lambda rows: specs(rows, radius), shapes.up, brief_of(run.config, preparation).text(), x,
            float(np.finfo(np.float32).max) if experiment.dataset.task == "regression" else 1.0,
        )  # fmt: skip
        record = None if seal is None else Record(store.folder, durable=False)
        self.driver = Driver(job, ask, run.wire.rules, note=self.note, stopped=stopped, seal=seal, record=record)
        self.first, self.ledger, self.spent, self.written = self._resumed(Ledger.first(state.server, len(run.wire.sites)))
        self.measure = jitted(
            lambda server, federation: global_scores(
                experiment, experiment.method.global_model(server),
                federation.view(federation.server), federation.view(federation.test),
            )
        )  # fmt: skip
        self.scores: Scores | None = None
        self.reached = self.first
        self.clock = time.perf_counter()

    def _resumed(self, first: Ledger) -> tuple[int, Ledger, float, int]:
        if not (self.store.folder / CHECKPOINT).exists():
            self.store.keep_rows(0)
            self.store.write_arrays("plan.safetensors", self.experiment.plan)
            return 0, first, 0.0, 0
        ledger, words = self.store.read_arrays(CHECKPOINT, like=first)
        self.store.keep_rows(int(words["rows"]))
        self.store.log(f"goes on after round {words['round']}")
        ledger = ledger._replace(server=jax.tree.map(jnp.asarray, ledger.server))
        return int(words["round"]), ledger, float(words["seconds"]), int(words["rows"])

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
        state = State(jax.tree.map(lambda a: jnp.asarray(a)[None], ledger.server), ())
        finish(self.experiment, self.store, state, self.scores)
        return Result(self.store.folder, config, self.store.final_rows(config), self.experiment, state)

    def save(self, ledger: Ledger, number: int) -> None:
        words = {"round": number, "rows": self.written, "seconds": self.seconds(), "config": self.run.config.digest()}
        self.store.write_arrays(CHECKPOINT, ledger, **words)
        self.reached = number

    def evaluate(self, ledger: Ledger, number: int) -> Ledger:
        """Asks the sites for their scores and writes a row, at the rounds where a simulation does."""
        rounds, every = self.run.config.run.rounds, self.run.config.run.eval_every
        if number % every and number != rounds:
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
        line = row(scores, 0, number, self.run.config.run.seed, spent, seconds, self.experiment.unit(0))
        if number == self.run.config.run.rounds:  # of the global model: a site's rows and predictions are its own
            x = jax.tree.map(lambda a: a[None], self.experiment.method.global_model(ledger.server))
            line |= verdict_row(verdicts(self.experiment, self.judges, x, ()).get(0, []))
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
    sites = {name: {key: int(getattr(ledger, key)[i]) for key in counts} for i, name in enumerate(names)}
    return {"sites": sites, "bytes_aside": int(ledger.bytes_aside)}
