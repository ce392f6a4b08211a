"""A client's own models between two rounds: in memory, and each in a file of its own where there is a folder.

A model is named by the address of the draws that it was made with (seed, round, client), and by whether it was told anything
beside its own rows: two models may have the same draws (`guard`). So the state of a client is names alone, eight bytes each in
checkpoints and memories, whatever the model is. A name is written before the state that holds it; a reply that was lost leaves
a file that nobody names, and the same round again writes the same file.

The files are pickles, in a folder that only its owner may write to. Nobody sends one: they are read where they were written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from ...errors import FedtierError
from ...storage.files import make_private, write_whole
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
        self._before: set[Name] | None = None  # None: what was kept before this process is not known

    def move_to(self, folder: Path) -> None:
        """From now on in this folder; what is in memory goes there."""
        make_private(folder)
        self.folder = folder
        for name, content in self._recent.items():
            write_whole(self._file(name), content)

    def put(self, name: Name, model: OwnModel) -> None:
        """Keeps the model; it is on disk when this returns."""
        try:
            content = pickle.dumps(model)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            hint = "define what it is made of at the top of a file, or give it __getstate__"
            raise FedtierError("model", type(model).__name__, f"cannot be kept: {error}", hint) from None
        self._recent[name] = content
        if self.folder is not None:
            write_whole(self._file(name), content)

    def get(self, name: Name) -> OwnModel:
        """A copy of the model as it was kept."""
        if name not in self._recent:
            if self.folder is None or not self._file(name).exists():
                where = "memory" if self.folder is None else str(self.folder)
                raise FedtierError("model", hex_of(name), f"is not in {where}", "start the run anew")
            self._recent[name] = self._file(name).read_bytes()
        return pickle.loads(self._recent[name])

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

    def _file(self, name: Name) -> Path:
        assert self.folder is not None
        return self.folder / f"{hex_of(name)}{SUFFIX}"


def hex_of(name: Name) -> str:
    """The name as a file is called."""
    return f"{name[0]:08x}{name[1]:08x}"


def untaught(name: Name) -> Name:
    """The name of the model with the draws of this name that was told nothing."""
    return name[0] ^ 1, name[1]


def names_in(states: PyTree) -> set[Name]:
    """All names in states of clients or in personal models, [..., 2] in every leaf that is no number of a model."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(states)]
    return {name_of(row) for leaf in leaves if leaf.dtype == np.uint32 for row in leaf.reshape(-1, 2)}


def name_of(words: np.ndarray) -> Name:
    """The name in a state, or in the words of a key."""
    first, second = np.asarray(words, np.uint32).tolist()
    return first, second
