"""A client's own models between two rounds: in memory, and each in a file of its own where there is a folder.

A model is named by the address of the draws that it was made with (seed, round, client), and by what it was told beside its own
rows: several models may have the same draws (`guard`, and the solves of an estimator). So the state of a client is names alone,
eight bytes each in checkpoints and memories, whatever the model is. A name is written before the state that holds it; a reply
that was lost leaves a file that nobody names, and the same round again writes the same file.

A file of the user's that a model is made by lies beside the models, so that they can be read where it is not.

The files are pickles, in a folder that only its owner may write to. Nobody sends one: they are read where they were written.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ...errors import FedtierError
from ...storage.files import make_private, write_whole
from ..by_path import MODULE, load_kept, source_of
from .contract import OwnModel

NEW = (0, 0)  # the name of no model yet
Name = tuple[int, int]
SUFFIX = ".model"
OWN = "own"  # in a run's folder: the models


class Kept:
    """The models by their names. Where there is no folder, they last as long as the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._recent: dict[Name, bytes] = {}
        self._made_by: dict[str, bytes] = {}  # files of the user's, by the modules that they are
        self._before: set[Name] | None = None  # None: what was kept before this process is not known

    def move_to(self, folder: Path) -> None:
        """From now on in this folder; what is in memory goes there."""
        make_private(folder)
        self.folder = folder
        self._write_files()
        for name, content in self._recent.items():
            write_whole(self._file(name), content)

    def put(self, name: Name, model: OwnModel) -> None:
        """Keeps the model; it is on disk when this returns."""
        try:
            content, files = _pickled(model)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            hint = "define what it is made of at the top of a file, or give it __getstate__"
            raise FedtierError("model", type(model).__name__, f"cannot be kept: {error}", hint) from None
        self._recent[name] = content
        self._made_by |= files
        if self.folder is not None:
            self._write_files()
            write_whole(self._file(name), content)

    def get(self, name: Name) -> OwnModel:
        """A copy of the model as it was kept."""
        if name not in self._recent:
            if self.folder is None or not self._file(name).exists():
                where = "memory" if self.folder is None else str(self.folder)
                raise FedtierError("model", hex_of(name), f"is not in {where}", "start the run anew")
            self._recent[name] = self._file(name).read_bytes()
        return _Reader(io.BytesIO(self._recent[name]), self.folder).load()

    def prune(self, names: Iterable[Name]) -> None:
        """Forgets all but these and those of the call before: a checkpoint and the one before it may still be read."""
        names, before = set(names), self._before
        self._before = names
        if before is None:
            return
        wanted = names | before
        self._recent = {name: content for name, content in self._recent.items() if name in wanted}
        if self.folder is not None and self.folder.is_dir():
            files = {hex_of(name) for name in wanted}
            for file in self.folder.glob(f"*{SUFFIX}"):
                if file.stem not in files:
                    file.unlink()

    def _write_files(self) -> None:
        assert self.folder is not None
        for module, content in self._made_by.items():
            if not (self.folder / f"{module}.py").exists():
                write_whole(self.folder / f"{module}.py", content)

    def _file(self, name: Name) -> Path:
        assert self.folder is not None
        return self.folder / f"{hex_of(name)}{SUFFIX}"


class _Writer(pickle.Pickler):
    """Notes which files of the user's an object is made by."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def reducer_override(self, obj: object) -> Any:
        module = getattr(obj, "__module__", None)
        if isinstance(module, str) and module.startswith(MODULE):
            self.modules.add(module)
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Takes files of the user's, where this process has not loaded them, as they were kept."""

    def __init__(self, file: io.BytesIO, folder: Path | None) -> None:
        super().__init__(file)
        self.folder = folder

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(MODULE) and module not in sys.modules:
            file = None if self.folder is None else self.folder / f"{module}.py"
            if file is None or not file.is_file():
                rule = f"was made by a file of yours that is not in {self.folder}"
                raise FedtierError("model", module, rule, "copy the whole folder of the run")
            load_kept("model", file)
        return super().find_class(module, name)


def _pickled(model: OwnModel) -> tuple[bytes, dict[str, bytes]]:
    """The model, and the files of the user's that are needed to read it again, by their modules."""
    content = io.BytesIO()
    writer = _Writer(content)
    writer.dump(model)
    return content.getvalue(), {module: source_of(module) for module in writer.modules}


def hex_of(name: Name) -> str:
    """The name as a file is called."""
    return f"{name[0]:08x}{name[1]:08x}"


def untaught(name: Name) -> Name:
    """The name of the model with the draws of this name that was told nothing."""
    return name[0] ^ 1, name[1]


def taught(name: Name, told: bytes) -> Name:
    """The name of the model with the draws of this name that was told this."""
    draws = np.asarray(name, np.uint32).tobytes()
    return name_of(np.frombuffer(hashlib.blake2b(told, digest_size=8, key=draws).digest(), np.uint32))


def names_in(states: PyTree) -> set[Name]:
    """All names in states of clients or in personal models, [..., 2] in every leaf that is no number of a model."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(states)]
    return {name_of(row) for leaf in leaves if leaf.dtype == np.uint32 for row in leaf.reshape(-1, 2)}


def name_of(words: np.ndarray) -> Name:
    """The name in a state, or in the words of a key."""
    first, second = np.asarray(words, np.uint32).tolist()
    return first, second
