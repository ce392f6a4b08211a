"""A folder per run: everything written whole or not at all.

config.toml          as resolved, every default written out          metrics.jsonl     one row per evaluation and seed
plan.safetensors     cohorts, local steps, drop-outs                 clients.json      accuracies per client, last evaluation
partition.json       who has how many of which class, first seed     model.safetensors     the final global models
preprocessing.json   how rows become a model's inputs, by seed
checkpoint.safetensors   the state after the round it names          environment.json, run.log
previous-checkpoint.safetensors   the one before it, for when that one is damaged
diverged.json        why there is no end, where there is none        labels.json       what a comparison calls the run
diverged_seeds.json  the seeds that have no end where others have one
lock                 held by the process that writes here
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, cast

from jaxtyping import PyTree

from ..errors import NOTHING, FedtierError
from ..federation import Plan
from ..storage import array_files
from ..storage.checksums import is_overlong, stamped, unstamped
from ..storage.files import Damaged, Lock, make_folder, told, write_whole
from .metric_row import Row
from .origin import Origin, code_of, environment
from .tables import Config, RunTable

FORMAT = "fedtier-1"
CHECKPOINT, METRICS, PLAN = "checkpoint.safetensors", "metrics.jsonl", "plan.safetensors"
SET_ASIDE = "set-aside"  # runs in here are kept, but nobody looks at them unless told to
DIVERGED_FILE, DIVERGED_SEEDS_FILE, LABELS_FILE = "diverged.json", "diverged_seeds.json", "labels.json"
MOST_LOG = 8_000_000  # bytes of run.log, after which it becomes run.log.1, in the place of the part before
HINT_DAMAGED = (
    f"`fedtier resume` mends what it can; without {CHECKPOINT} and previous-{CHECKPOINT} it computes the run "
    "again from round 0, to the same numbers"
)


class DivergedSeed(NamedTuple):
    """A seed that ended before the others."""

    seed: int
    after: int  # the last round at which it was sound
    by: int  # the round at which it was not
    why: str

    def words(self) -> str:
        return f"seed {self.seed} diverged between rounds {self.after} and {self.by}: {self.why}"


def new_folder(name: str, inside: Path = Path("runs")) -> Path:
    """A folder of its own for a new run, named by the second and `name`; two runs of one second get two folders."""
    base = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{name}"
    for number in itertools.count(1):
        folder = inside / (base if number == 1 else f"{base}-{number}")
        with told(folder), suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")


class RunFolder:
    """One run's folder. Whoever writes into it holds it (`with folder.held():`), so that one process at a time does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def held(self, waiting: Callable[[str], None] | None = None) -> Iterator[RunFolder]:
        """Holds the folder, which is made if need be. While another process has it: refused by that process's number,
        or, with `waiting`, told of it once and waited for."""
        make_folder(self.folder)
        lock = Lock(self.folder / "lock")
        holder = lock.take()
        if holder is not None and waiting is None:
            hint = "wait for it, or stop it: it saves its state and can be resumed"
            raise FedtierError("DIR", str(self.folder), f"is in use by process {holder}", hint)
        if holder is not None and waiting is not None:
            waiting(holder)
            lock.take(wait=True)
        try:
            yield self
        finally:
            lock.free()

    def refuse_second_run(self) -> None:
        if (self.folder / "config.toml").exists():
            hint = f"choose another folder, or `fedtier resume {self.folder}`"
            raise FedtierError("--out", str(self.folder), "already holds a run", hint)

    def begin(self, config: Config, data: str) -> None:
        """Writes what is known before the first round; `data` is the data set's digest."""
        self.refuse_second_run()
        if config.privacy.kind != "none":  # the seed, and so the plan and the noise, are the server's secrets
            self.folder.chmod(0o700)
        self.write("environment.json", json.dumps(environment() | {"data": data, "code": code_of(config)}, indent=1).encode())
        self.write("config.toml", config.toml().encode())

    def made_from(self) -> Origin:
        """Which rows and which version of the code made the run; blank where the folder does not tell."""
        try:
            found = json.loads((self.folder / "environment.json").read_bytes())
        except (OSError, ValueError):
            return Origin("", "")
        return Origin(str(found.get("data", "")), str(found.get("code", "")))

    def set_aside(self) -> Path:
        """Moves the run's files into a folder of SET_ASIDE; this one is then as good as new."""
        numbered = (self.folder.parent / SET_ASIDE / f"{self.folder.name}-{k}" for k in itertools.count(1))
        aside = next(folder for folder in numbered if not folder.exists())
        make_folder(aside)
        with told(aside):
            for file in sorted(self.folder.iterdir(), key=lambda file: file.name == "config.toml"):  # the mark of a run last
                if file.name != "lock":
                    file.rename(aside / file.name)
        return aside

    def write(self, name: str, data: bytes) -> None:
        """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
        write_whole(self.folder / name, data)

    def write_arrays(self, name: str, tree: PyTree, *, keep_previous: bool = False, **words: object) -> None:
        """The tree as a file with checksums; `words` go into its header. The old one stays as the previous
        generation if asked for."""
        told = {"format": FORMAT} | {key: str(value) for key, value in words.items()}
        array_files.save(self.folder / name, tree, told, keep_previous=keep_previous)

    def read_arrays(self, name: str, like: PyTree, newer: tuple[str, ...] = ()) -> tuple[PyTree, dict[str, str]]:
        """The tree and the words written with it; refuses a damaged or foreign file by name. `newer` as `array_files.load` has
        it."""
        return array_files.load(self.folder / name, like, FORMAT, HINT_DAMAGED, newer=newer)

    def keep_plan(self, plan: Plan, say: Callable[[str], None]) -> None:
        """The plan, which the configuration determines, as a file to look at; one that is damaged is written again."""
        path = self.folder / PLAN
        if path.exists():
            try:
                array_files.ArrayFile(path, FORMAT, HINT_DAMAGED).whole()
                return
            except Damaged as error:
                say(f"{path}: {error.rule}; written again")
        self.write_arrays(PLAN, plan)

    def write_diverged_seeds(self, seeds: list[DivergedSeed]) -> None:
        self.write(DIVERGED_SEEDS_FILE, json.dumps([seed._asdict() for seed in seeds]).encode())

    def diverged_seeds(self) -> list[DivergedSeed]:
        """The seeds that ended before the others; none where all went on."""
        path = self.folder / DIVERGED_SEEDS_FILE
        try:
            return [DivergedSeed(**seed) for seed in json.loads(path.read_bytes())] if path.exists() else []
        except (ValueError, TypeError) as error:
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", HINT_DAMAGED) from None

    def append(self, rows: list[Row]) -> None:
        """Adds rows of metrics, each with its checksum."""
        path = self.folder / METRICS
        with told(path), open(path, "a", encoding="utf-8") as file:
            file.write("".join(stamped(row) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())

    def rows(self, count: int | None = None) -> list[Row]:
        """The first `count` metrics so far, all of them unless told; a half-written last line, left by a crash, is not one of
        them. Refuses damaged lines, and fewer of them than there were at the last checkpoint."""
        path, promised = self.folder / METRICS, self._promised() if count is None else count
        lines, tail = self._lines()
        rows = [_row(path, number, line) for number, line in enumerate(lines[:count], 1)]
        if count is None and is_overlong(tail):
            raise Damaged(f"{path}, line {len(lines) + 1}", NOTHING, "is damaged: it does not end", HINT_DAMAGED)
        if len(rows) < promised:
            rule = f"has {len(rows)} rows, the checkpoint was written after {promised}"
            raise Damaged(str(path), NOTHING, rule, HINT_DAMAGED)
        return rows

    def sound_rows(self) -> tuple[list[Row], list[int]]:
        """The rows that are whole, and the numbers of the lines that are damaged."""
        rows, damaged = [], []
        lines, _ = self._lines()
        for number, line in enumerate(lines, 1):
            try:
                rows.append(_row(self.folder / METRICS, number, line))
            except Damaged:
                damaged.append(number)
        return rows, damaged

    def keep_rows(self, rows: list[Row]) -> None:
        """These rows and no others: forgets those written after the checkpoint that a resumed run starts from."""
        self.write(METRICS, "".join(stamped(row) + "\n" for row in rows).encode())

    def _lines(self) -> tuple[list[bytes], bytes]:
        path = self.folder / METRICS
        *lines, tail = path.read_bytes().split(b"\n") if path.exists() else [b""]
        return lines, tail

    def _promised(self) -> int:
        """How many rows the last checkpoint says there were; 0 where it cannot tell."""
        try:
            return int(array_files.ArrayFile(self.folder / CHECKPOINT, FORMAT, "").words.get("rows", 0))
        except FedtierError:
            return 0

    def due_rows(self, rows: list[Row], run: RunTable) -> list[Row]:
        """Those of the first `rows` that a run of this length has: one that was extended does not stop at its old end, whose
        rows are the last."""
        return [row for row in rows if row["round"] % run.eval_every == 0 or row["round"] == run.rounds]

    def final_rows(self, config: Config) -> list[Row]:
        """The row of each seed after the last round, by the seed's number; a round that was written twice counts once."""
        rows = {row["seed"]: row for row in self.rows() if row["round"] == config.run.rounds}
        return [rows[seed] for seed in sorted(rows)]

    def log(self, line: str) -> None:
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        path = self.folder / "run.log"
        with told(path):
            if path.exists() and path.stat().st_size > MOST_LOG:
                path.replace(path.with_name(f"{path.name}.1"))
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{stamp} {line}\n")


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        return cast(Row, unstamped(line))  # which `append` wrote: its checksum holds
    except ValueError as error:
        raise Damaged(f"{path}, line {number}", NOTHING, f"is damaged: {error}", HINT_DAMAGED) from None
