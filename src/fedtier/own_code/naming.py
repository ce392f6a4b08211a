"""The words for the user's own code: "my.py:method" names what my.py calls `method`, "python:method" an object of the program.

Nothing is loaded here, neither the user's file nor JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..storage.json_value import Json
from .held import PREFIX, is_object

MARK = ".py:"  # what tells a path from a name


class Place(NamedTuple):
    """Where a word points to."""

    file: Path
    name: str

    @classmethod
    def of(cls, word: str) -> Place:
        file, _, name = word.rpartition(":")
        return cls(Path(file).expanduser(), name)


def is_path(word: object) -> bool:
    """Whether the word names something in a file of the user's."""
    return isinstance(word, str) and MARK in word and not is_object(word)


def is_own(word: object) -> bool:
    """Whether the word stands for something of the user's: in a file, or an object of the program."""
    return is_path(word) or is_object(word)


def short(word: str) -> str:
    """What people and folders call it: "my.py:method" and "python:method" are "method"."""
    return Place.of(word).name if is_path(word) else word.removeprefix(PREFIX)


def bare(word: str) -> str:
    """The word without the folder of its file."""
    file, name = Place.of(word)
    return f"{file.name}:{name}"


def anchored(word: Json, folder: Path) -> Json:
    """The word with its file looked for here first, then in `folder`, where the configuration lies."""
    if not (isinstance(word, str) and is_path(word)) or Place.of(word).file.is_file():
        return word
    file, name = Place.of(word)
    return f"{(folder / file).absolute()}:{name}" if (folder / file).is_file() else word
