"""A net that others have trained, as an ONNX file: it is asked through onnxruntime, never differentiated, never changed.

    net = FrozenNet("net.onnx", sha256="...")        net(inputs) -> [B, outputs], of arrays or inside a compiled program
    remapped(net, basis, outputs=net.outputs, classes=10)          a model around it (`problem.remapped`)

What stands behind the net sees numbers that do not change: ask once for every row, and train on the answers. What stands
before it can be tuned by values alone, and every value costs a pass; `rows` counts them. Weights are files with licences of
their own, and never part of this package: whoever uses some fetches them, by their hash.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ..datasets.published import sha256_of
from ..errors import FedtierError, require, whole


class FrozenNet:
    """The first output of the net in `file`, flat, for its only input. `sha256` is compared before anything is loaded;
    `threads` is how many cores it may use."""

    def __init__(self, file: str | Path, *, sha256: str, threads: int = 1) -> None:
        whole("threads", threads)
        path = Path(file)
        require(path.is_file(), "file", str(path), "is not there")
        found = sha256_of(path)
        require(found == sha256, "sha256", found, f"{path.name} is another file than {sha256 or 'none was named'}")
        self._session = _session(path, threads)
        (given,) = self._session.get_inputs()
        self._name, self.shape = given.name, tuple(given.shape[1:])
        fixed = all(isinstance(size, int) for size in self.shape)
        require(fixed, "file", str(path), f"must have rows of one shape, not {self.shape}")
        self.rows = 0  # that have gone through it
        self.outputs = self.ask(np.zeros((1, math.prod(self.shape)), np.float32)).shape[1]
        self.rows = 0

    def ask(self, inputs: Array | np.ndarray) -> np.ndarray:
        """[..., features] -> [..., outputs], in one call."""
        inputs = np.asarray(inputs, np.float32)
        flat = inputs.reshape(-1, *self.shape)
        found = self._session.run(None, {self._name: flat})[0]
        self.rows += len(flat)
        return np.asarray(found, np.float32).reshape(*inputs.shape[:-1], -1)

    def __call__(self, inputs: Array | np.ndarray) -> Array:
        """[B, features] -> [B, outputs]; also while a program is traced, where it becomes a call from that program."""
        like = jax.ShapeDtypeStruct((inputs.shape[0], self.outputs), np.float32)
        return jax.pure_callback(self.ask, like, inputs, vmap_method="expand_dims")


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        hint = "pip install 'fedtier[onnxruntime]'"
        raise FedtierError("file", path.name, "needs the package onnxruntime", hint) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has errors of its own, with no class in common
        raise FedtierError("file", str(path), f"is no net that onnxruntime can load: {str(error).splitlines()[0]}") from None
