"""A folder per run: everything written whole or not at all.

config.toml          as resolved, every default written out          metrics.jsonl     one row per evaluation and seed
plan.safetensors     cohorts, local steps, drop-outs                 clients.json      accuracies per client, last evaluation
partition.json       who has how many of which class, first seed     model.safetensors     the final global models
preprocessing.json   how rows become a model's inputs, by seed
checkpoint.safetensors   the state after the round it names          environment.json, run.log
diverged.json        why there is no end, where there is none        labels.json       what a comparison calls the run
lock                 held by the process that writes here
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jaxtyping import PyTree

from ..errors import NOTHING, FedtierError, require
from ..storage import named_arrays
from ..storage.files import Lock, make_folder, told, write_whole
from .config import Config

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
    "experiments",
)
DIVERGED_FILE, LABELS_FILE = "diverged.json", "labels.json"
HINT_DAMAGED = "the run's other files are untouched; start again with `fedtier run` and the folder's config.toml"


class RunFolder:
    """One run's folder, held by one process at a time: a context manager that locks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock(folder / "lock")

    def __enter__(self) -> RunFolder:
        """Locks the folder; a folder that another process is writing to is refused by that process's number."""
        holder = self._lock.take()
        if holder is not None:
            hint = "wait for it, or stop it: it saves its state and can be resumed"
            raise FedtierError("DIR", str(self.folder), f"is in use by process {holder}", hint)
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.free()

    @staticmethod
    def reserve(folder: Path) -> None:
        """Makes the folder; refuses one that already holds a run."""
        if (folder / "config.toml").exists():
            hint = f"choose another folder, or `fedtier resume {folder}`"
            raise FedtierError("--out", str(folder), "already holds a run", hint)
        make_folder(folder)

    @classmethod
    def create(cls, folder: Path, config: Config) -> RunFolder:
        """A new folder with its configuration."""
        cls.reserve(folder)
        files = cls(folder)
        files.write("environment.json", json.dumps(environment(), indent=1).encode())
        files.write("config.toml", config.toml().encode())
        return files

    def write(self, name: str, data: bytes) -> None:
        """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
        write_whole(self.folder / name, data)

    def write_arrays(self, name: str, tree: PyTree, **words: Any) -> None:
        named_arrays.save(self.folder / name, tree, {"format": FORMAT} | {key: str(value) for key, value in words.items()})

    def read_arrays(self, name: str, like: PyTree) -> tuple[PyTree, dict[str, str]]:
        """The tree and the words written with it; refuses a damaged or foreign file by name."""
        return named_arrays.load(self.folder / name, like, FORMAT, HINT_DAMAGED)

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


def environment() -> dict[str, Any]:
    packages = ("fedtier", "jax", "jaxlib", "optax", "equinox", "numpy", "safetensors")
    device = jax.devices()[0]
    return {
        "versions": {name: _version(name) for name in packages},
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
