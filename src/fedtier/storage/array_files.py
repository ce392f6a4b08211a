"""Files of named arrays that carry their own checksums: one changed byte, wherever it lies, is found when the file is read.

The container is safetensors. Two words of its header are ours:

    header   of the header as it is stored, the letters of this word taken as zeros; so names, shapes and all words are covered
    arrays   of the bytes of all arrays in the order of their names; in a file of `stacked` = 2 leading axes, one for each
             [seed, client], so that one client's arrays are read and checked without the others

A file with neither word was written before there were checksums: it is read, with a warning.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from ..errors import NOTHING, FedtierError, FedtierWarning, require
from .checksums import LETTERS, checksum
from .files import Damaged, write_whole
from .named_arrays import from_arrays, named_leaves, to_arrays

HEADER, ARRAYS, STACKED = "header", "arrays", "stacked"
ZEROS = "0" * LETTERS
MOST_HEADER = 100_000_000  # bytes; safetensors' own limit


def save(path: Path, tree: PyTree, words: dict[str, str], *, stacked: int = 0, keep_previous: bool = False) -> None:
    """The tree as a file with `words` in its header; the whole file or the old one, which stays as the previous generation if
    asked for. With `stacked` every leaf has so many leading axes, and each place along them a checksum of its own."""
    arrays = {name: np.array(a, order="C") for name, a in to_arrays(tree).items()}
    sums = "".join(_checksum(rows) for rows in _places(arrays, stacked))
    ours = {ARRAYS: sums, STACKED: str(stacked), HEADER: ZEROS}
    data = bytearray(safetensors.numpy.save(arrays, metadata=words | ours))
    mark, end = f'"{HEADER}":"'.encode(), 8 + int.from_bytes(data[:8], "little")
    start = data.index(mark + ZEROS.encode(), 0, end) + len(mark)
    data[start : start + LETTERS] = checksum(data[:end]).encode()
    write_whole(path, data, keep_previous=keep_previous)


def load(path: Path, like: PyTree, format: str, hint: str, *, newer: tuple[str, ...] = ()) -> tuple[PyTree, dict[str, str]]:
    """(the tree shaped like `like`, the words of the header); refuses a file that is damaged or of another format.

    Arrays whose names begin with one of `newer` are those of `like` where the file, written before there were any, has none.
    """
    file = ArrayFile(path, format, hint)
    arrays = file.whole()
    since = {name: a for name, a in to_arrays(like).items() if name.startswith(newer)} if newer else {}
    if not since.keys() & arrays.keys():
        arrays = since | arrays
    return from_arrays(arrays, like, str(path)), file.words


class ArrayFile:
    """A file of named arrays whose header has been checked; arrays are checked as they are read."""

    def __init__(self, path: Path, format: str, hint: str) -> None:
        self.path, self.hint = path, hint
        with self._open() as file:
            words = file.metadata() or {}
            self.shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        self.words = {key: word for key, word in words.items() if key not in (HEADER, ARRAYS, STACKED)}
        self.stacked, self.sums = 0, None
        if HEADER in words or ARRAYS in words:  # one changed byte cannot take both words away
            self._check_header(words.get(HEADER, ""))
            self.stacked, sums = int(words[STACKED]), words[ARRAYS]
            self.sums = [sums[k : k + LETTERS] for k in range(0, len(sums), LETTERS)]
        if words.get("format") != format:
            raise FedtierError(str(path), words.get("format"), f"must be of format {format}", hint)

    def whole(self) -> dict[str, np.ndarray]:
        """All arrays by name."""
        with self._open() as file:
            arrays = {name: file.get_tensor(name) for name in self.shapes}
        if self._can_be_checked(self.sums):
            self._agree([_checksum(rows) for rows in _places(arrays, self.stacked)], self.sums)
        return arrays

    def one(self, place: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The arrays at one place of the stacked axes; costs what their bytes cost, whatever the file's size."""
        with self._open() as file:
            arrays = {name: np.asarray(file.get_slice(name)[place]) for name in self.shapes}
        if self._can_be_checked(self.sums):
            lead = next(iter(self.shapes.values()))[: self.stacked]
            require(self.stacked == len(place), str(self.path), self.stacked, "has other stacked axes", self.hint)
            self._agree([_checksum(arrays)], [self.sums[int(np.ravel_multi_index(place, lead))]])
        return arrays

    def require_shapes(self, like: PyTree) -> None:
        """Refuses a file whose arrays have not the shapes of `like`."""
        wanted = {name: tuple(leaf.shape) for name, leaf in named_leaves(like).items()}
        if self.shapes != wanted:
            odd = next(k for k in sorted(self.shapes.keys() | wanted.keys()) if self.shapes.get(k) != wanted.get(k))
            found, want = (None if k is None else list(k) for k in (self.shapes.get(odd), wanted.get(odd)))
            raise FedtierError(str(self.path), NOTHING, f"has {odd} as {found}, the model has {want}", self.hint)

    def _check_header(self, told: str) -> None:
        with open(self.path, "rb") as file:
            first = file.read(8)
            header = first + file.read(min(int.from_bytes(first, "little"), MOST_HEADER))
        once = len(told) == LETTERS and header.count(told.encode()) == 1
        self._agree([checksum(header.replace(told.encode(), ZEROS.encode())) if once else "none"], [told])

    def _can_be_checked(self, sums: list[str] | None) -> TypeGuard[list[str]]:
        if sums is None:
            rule = "was written before files had checksums: damage in it would not be found"
            warnings.warn(f"{self.path}: {rule}", FedtierWarning, stacklevel=3)
        return sums is not None

    def _agree(self, found: list[str], told: list[str]) -> None:
        if found != told:
            raise Damaged(str(self.path), NOTHING, "is damaged: its checksum does not hold", self.hint)

    def _open(self) -> safetensors.safe_open:
        try:
            return safetensors.safe_open(self.path, framework="numpy")
        except FileNotFoundError:
            raise Damaged(str(self.path), NOTHING, "is not there", self.hint) from None
        except Exception as error:  # the parser raises many types
            raise Damaged(str(self.path), NOTHING, f"is damaged: {error}", self.hint) from None


def _places(arrays: dict[str, np.ndarray], stacked: int) -> Iterator[dict[str, np.ndarray]]:
    """The arrays at each place of the stacked axes, in order; without any, all at once."""
    if not stacked or not arrays:
        yield arrays
        return
    lead = next(iter(arrays.values())).shape[:stacked]
    for place in itertools.product(*(range(count) for count in lead)):
        yield {name: a[place] for name, a in arrays.items()}


def _checksum(arrays: Mapping[str, np.ndarray | np.generic]) -> str:
    return checksum(*(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data for name in sorted(arrays)))
