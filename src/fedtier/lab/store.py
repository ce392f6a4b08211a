"""A folder per run: everything written whole or not at all.

config.toml          as resolved, every default written out          metrics.jsonl     one row per evaluation and seed
plan.safetensors     cohorts, local steps, drop-outs                 clients.json      accuracies per client, last evaluation
checkpoint.safetensors   the state after the round it names          model.safetensors     the final global models
environment.json     versions, device, commit                        run.log
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from ..engines import codec
from ..errors import NOTHING, FedtierError
from .config import Config

FORMAT = "fedtier-1"


class Store:
    """The writer of one run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, config: Config) -> Store:
        """A new folder with its configuration; refuses one that already holds a run."""
        if (folder / "config.toml").exists():
            raise FedtierError(
                "--out", str(folder), "already holds a run", f"choose another folder, or `fedtier resume {folder}`"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            store = cls(folder)
            store.write("environment.json", json.dumps(environment(), indent=1).encode())
            store.write("config.toml", config.toml().encode())
        except OSError as error:
            raise FedtierError("--out", str(folder), f"cannot be written: {error.strerror}", "choose another folder") from None
        return store

    def write(self, name: str, data: bytes) -> None:
        """The whole file or the old one: temporary file, fsync, rename, fsync of the folder."""
        target, partial = self.folder / name, self.folder / f".{name}.part"
        try:
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
            descriptor = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            partial.unlink(missing_ok=True)
            rule = f"cannot be written: {error.strerror}"
            raise FedtierError(
                str(target), NOTHING, rule, "what was written before is whole; free space, then resume"
            ) from None

    def write_arrays(self, name: str, tree: PyTree, **words: Any) -> None:
        arrays = {key: np.array(a, order="C") for key, a in codec.to_arrays(tree).items()}
        header = {"format": FORMAT} | {key: str(value) for key, value in words.items()}
        self.write(name, safetensors.numpy.save(arrays, metadata=header))

    def read_arrays(self, name: str, like: PyTree) -> tuple[PyTree, dict[str, str]]:
        """The tree and the words written with it; refuses a damaged or foreign file by name."""
        path = self.folder / name
        hint = "the run's other files are untouched; start again from config.toml"
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
        try:
            with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            rule = f"cannot be written: {error.strerror}"
            hint = "what was written before is whole; free space, then resume"
            raise FedtierError(str(self.folder / "metrics.jsonl"), NOTHING, rule, hint) from None

    def rows(self) -> list[dict[str, Any]]:
        """The metrics so far; a half-written last line, left by a crash, is not one of them."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def keep_rows(self, count: int) -> None:
        """Forgets rows written after the checkpoint that a resumed run starts from."""
        kept = self.rows()[:count]
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in kept).encode())

    def log(self, line: str) -> None:
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with open(self.folder / "run.log", "a", encoding="utf-8") as file:
            file.write(f"{stamp} {line}\n")


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
