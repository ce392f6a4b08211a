"""A folder per run: everything written whole or not at all.

config.toml          as resolved, every default written out          metrics.jsonl     one row per evaluation and seed
plan.safetensors     cohorts, local steps, drop-outs                 clients.json      accuracies per client, last evaluation
partition.json       who has how many of which class, first seed     model.safetensors     the final global models
checkpoint.safetensors   the state after the round it names          environment.json, run.log
diverged.json        why there is no end, where there is none        labels.json       what a comparison calls the run
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from ..engines import codec
from ..errors import NOTHING, FedtierError, require
from .config import Config

FORMAT = "fedtier-1"
DIVERGED_FILE, LABELS_FILE = "diverged.json", "labels.json"
HINT_DAMAGED = "the run's other files are untouched; start again with `fedtier run` and the folder's config.toml"


class Store:
    """The writer of one run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def reserve(folder: Path) -> None:
        """Makes the folder; refuses one that already holds a run."""
        if (folder / "config.toml").exists():
            hint = f"choose another folder, or `fedtier resume {folder}`"
            raise FedtierError("--out", str(folder), "already holds a run", hint)
        make_folder(folder)

    @classmethod
    def create(cls, folder: Path, config: Config) -> Store:
        """A new folder with its configuration."""
        cls.reserve(folder)
        store = cls(folder)
        store.write("environment.json", json.dumps(environment(), indent=1).encode())
        store.write("config.toml", config.toml().encode())
        return store

    def write(self, name: str, data: bytes) -> None:
        """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
        write_whole(self.folder / name, data)

    def write_arrays(self, name: str, tree: PyTree, **words: Any) -> None:
        arrays = {key: np.array(a, order="C") for key, a in codec.to_arrays(tree).items()}
        header = {"format": FORMAT} | {key: str(value) for key, value in words.items()}
        self.write(name, safetensors.numpy.save(arrays, metadata=header))

    def read_arrays(self, name: str, like: PyTree) -> tuple[PyTree, dict[str, str]]:
        """The tree and the words written with it; refuses a damaged or foreign file by name."""
        path, hint = self.folder / name, HINT_DAMAGED
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                words = file.metadata() or {}
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            raise FedtierError(str(path), NOTHING, "is not there", "is this the folder of a run?") from None
        except Exception as error:  # the parser raises many types
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", hint) from None
        if words.get("format") != FORMAT:
            raise FedtierError(str(path), words.get("format"), f"must be of format {FORMAT}", hint)
        return codec.from_arrays(arrays, like, str(path)), words

    def append(self, rows: list[dict[str, Any]]) -> None:
        path = self.folder / "metrics.jsonl"
        with _told(path), open(path, "a", encoding="utf-8") as file:
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

    def log(self, line: str) -> None:
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        path = self.folder / "run.log"
        with _told(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{stamp} {line}\n")


def make_folder(folder: Path) -> None:
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write_whole(target: Path, data: bytes) -> None:
    """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
    partial = target.with_name(f".{target.name}.part")
    with _told(target):
        try:
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            with suppress(OSError):  # it may never have been there
                partial.unlink()
            raise


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses, in words that say what to do about it."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        hint = "what was written before is whole; free space, then `fedtier resume`" if full else "choose another folder"
        raise FedtierError(str(path), NOTHING, f"cannot be written: {error.strerror}", hint) from None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return None


def environment() -> dict[str, Any]:
    packages = ("fedtier", "jax", "jaxlib", "optax", "equinox", "numpy", "safetensors")
    device = jax.devices()[0]
    try:
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
    except OSError:
        commit = None
    return {
        "versions": {name: _version(name) for name in packages},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "commit": commit,
    }
