"""A closed program as a client's model: over files, or over HTTP. It sees arrays and gives arrays, in NumPy's own format.

    COMMAND fit FOLDER        reads rows.npz (inputs, labels), guidance.npz (inputs, shares, weight, classes, steps, seed) and,
                              after the first time, model.bin; writes model.bin, whatever it likes to remember
    COMMAND predict FOLDER    reads model.bin and inputs.npy; writes shares.npy [B, C]

A service gets the same files as one .npz: POST URL/fit answers with the bytes to remember, POST URL/predict with shares.npy.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import numpy as np

from ...errors import FedtierError
from ...problem import Rows
from .contract import Guidance


class Program:
    """A program that is called by its command; what it remembers is the bytes that it leaves behind."""

    def __init__(self, command: str, *, seconds: float = 600.0) -> None:
        self.command, self.seconds, self.model = shlex.split(command), seconds, b""

    def fit(self, rows: Rows, guidance: Guidance) -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, content in _files(rows, guidance).items():
                (folder / name).write_bytes(content)
            self._call("fit", folder)
            self.model = (folder / "model.bin").read_bytes()

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            np.save(folder / "inputs.npy", inputs)
            self._call("predict", folder)
            return np.load(folder / "shares.npy", allow_pickle=False)

    def _call(self, verb: str, folder: Path) -> None:
        if self.model:
            (folder / "model.bin").write_bytes(self.model)
        words = [*self.command, verb, str(folder)]
        done = subprocess.run(words, capture_output=True, timeout=self.seconds, check=False)
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise FedtierError("program", " ".join(self.command), f"{verb} ended with {done.returncode}: {''.join(last)}")


class Service:
    """A program that answers over HTTP, at a URL of the client's own network."""

    def __init__(self, url: str, *, seconds: float = 600.0) -> None:
        self.url, self.seconds, self.model = url.rstrip("/"), seconds, b""

    def fit(self, rows: Rows, guidance: Guidance) -> None:
        self.model = self._post("fit", _files(rows, guidance))

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        told = io.BytesIO()
        np.save(told, inputs)
        return np.load(io.BytesIO(self._post("predict", {"inputs.npy": told.getvalue()})), allow_pickle=False)

    def _post(self, verb: str, files: dict[str, bytes]) -> bytes:
        arrays = {name: np.frombuffer(content, np.uint8) for name, content in files.items()}
        arrays["model.bin"] = np.frombuffer(self.model, np.uint8)
        request = urllib.request.Request(f"{self.url}/{verb}", data=_npz(**arrays), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                return answer.read()
        except OSError as error:
            raise FedtierError("service", self.url, f"{verb} failed: {error}") from None


def _files(rows: Rows, guidance: Guidance) -> dict[str, bytes]:
    return {
        "rows.npz": _npz(inputs=np.asarray(rows.inputs), labels=np.asarray(rows.labels)),
        "guidance.npz": _npz(**{name: np.asarray(value) for name, value in guidance._asdict().items()}),
    }


def _npz(**arrays: np.ndarray) -> bytes:
    told = io.BytesIO()
    np.savez(told, **arrays)  # pyright: ignore[reportArgumentType]
    return told.getvalue()
