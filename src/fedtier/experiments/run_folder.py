"""A folder per run: everything written whole or not at all.

config.toml          as resolved, every default written out          metrics.jsonl     one row per evaluation and seed
plan.safetensors     cohorts, local steps, drop-outs                 clients.json      accuracies per client, last evaluation
partition.json       who has how many of which class, first seed     model.safetensors     the final global models
preprocessing.json   how rows become a model's inputs, by seed
checkpoint.safetensors   the state after the round it names          environment.json, run.log
diverged.json        why there is no end, where there is none        labels.json       what a comparison calls the run
diverged_seeds.json  the seeds that have no end where others have one
lock                 held by the process that writes here
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from ..errors import NOTHING, FedtierError, require
from ..own_code import by_path
from ..storage import named_arrays
from ..storage.files import Lock, make_folder, told, write_whole
from .config import Config, RunTable

FORMAT = "fedtier-1"
PACKAGE = Path(__file__).parents[1]
NUMERIC = (
    "trees",
    "keys",
    "schedules",
    "compilation",
    "problem",
    "datasets",
    "federation",
    "methods",
    "engines",
    "own_code",
    "experiments",
)
SET_ASIDE = "set-aside"  # runs in here are kept, but nobody looks at them unless told to
DIVERGED_FILE, DIVERGED_SEEDS_FILE, LABELS_FILE = "diverged.json", "diverged_seeds.json", "labels.json"
HINT_DAMAGED = "the run's other files are untouched; start again with `fedtier run` and the folder's config.toml"


class DivergedSeed(NamedTuple):
    """A seed that ended before the others."""

    seed: int
    after: int  # the last round at which it was sound
    by: int  # the round at which it was not
    why: str

    def words(self) -> str:
        return f"seed {self.seed} diverged between rounds {self.after} and {self.by}: {self.why}"


class Origin(NamedTuple):
    """What else than its configuration determines a run's numbers."""

    data: str  # digest of the rows
    code: str  # digest of the package's source


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

    def write_arrays(self, name: str, tree: PyTree, **words: Any) -> None:
        named_arrays.save(self.folder / name, tree, {"format": FORMAT} | {key: str(value) for key, value in words.items()})

    def read_arrays(self, name: str, like: PyTree, newer: tuple[str, ...] = ()) -> tuple[PyTree, dict[str, str]]:
        """The tree and the words written with it; refuses a damaged or foreign file by name. `newer` as `named_arrays.load` has
        it."""
        return named_arrays.load(self.folder / name, like, FORMAT, HINT_DAMAGED, newer=newer)

    def write_diverged_seeds(self, seeds: list[DivergedSeed]) -> None:
        self.write(DIVERGED_SEEDS_FILE, json.dumps([seed._asdict() for seed in seeds]).encode())

    def diverged_seeds(self) -> list[DivergedSeed]:
        """The seeds that ended before the others; none where all went on."""
        path = self.folder / DIVERGED_SEEDS_FILE
        try:
            return [DivergedSeed(**seed) for seed in json.loads(path.read_bytes())] if path.exists() else []
        except (ValueError, TypeError) as error:
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", HINT_DAMAGED) from None

    def append(self, rows: list[dict[str, Any]]) -> None:
        path = self.folder / "metrics.jsonl"
        with told(path), open(path, "a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())

    def rows(self, count: int | None = None) -> list[dict[str, Any]]:
        """The first `count` metrics so far; a half-written last line, left by a crash, is not one of them."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1][:count] if path.exists() else []
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise FedtierError(f"{path}, line {number}", NOTHING, f"is damaged: {error}", HINT_DAMAGED) from None
        return rows

    def keep_rows(self, count: int) -> None:
        """Forgets rows written after the checkpoint that a resumed run starts from."""
        kept = self.rows(count)
        rule = f"has {len(kept)} rows, the checkpoint was written after {count}"
        require(len(kept) == count, str(self.folder / "metrics.jsonl"), NOTHING, rule, HINT_DAMAGED)
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in kept).encode())

    def due_rows(self, count: int, run: RunTable) -> int:
        """How many of the first `count` rows a run of this length has: one that was extended does not stop at its old end,
        whose rows are the last."""
        ends = [row["round"] for row in self.rows(count)]
        return count - sum(end % run.eval_every != 0 and end != run.rounds for end in ends)

    def final_rows(self, config: Config) -> list[dict[str, Any]]:
        """The row of each seed after the last round, by the seed's number; a round that was written twice counts once."""
        rows = {row["seed"]: row for row in self.rows() if row["round"] == config.run.rounds}
        return [rows[seed] for seed in sorted(rows)]

    def log(self, line: str) -> None:
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        path = self.folder / "run.log"
        with told(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{stamp} {line}\n")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return None


def package_versions() -> dict[str, str | None]:
    """Of fedtier and of the packages that determine its numbers."""
    packages = ("fedtier", "jax", "jaxlib", "optax", "equinox", "numpy", "safetensors")
    return {name: _version(name) for name in packages}


def environment() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "versions": package_versions(),
        "code": code_digest(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "commit": _commit(),
    }


@functools.cache
def code_digest() -> str:
    """Twelve letters for the package's own source: results of another version are not taken for those of this one."""
    content = hashlib.sha256()
    for room in NUMERIC:
        for file in sorted(PACKAGE.glob(f"{room}/**/*.py" if (PACKAGE / room).is_dir() else f"{room}.py")):
            content.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return content.hexdigest()[:12]


def code_of(config: Config) -> str:
    """`code_digest`, and the content of the user's own files where the configuration names some."""
    own = by_path.digest([config.method.name, config.method.problem or "", config.model.name, config.data.name])
    return f"{code_digest()}-{own}" if own else code_digest()


def _commit() -> str | None:
    """The commit of this package's own repository; none where the package merely lies inside another one."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        ours = git("ls-files", "--error-unmatch", "__init__.py")  # tracked there, not merely lying there
        return git("rev-parse", "HEAD") or None if ours else None
    except OSError:
        return None
