"""Words of a configuration that stand for objects of a Python program.

A configuration is words and numbers, because a file must hold it. A program may give a frame, a function or a part of a
method instead: the word is then `python:NAME`, and the object rides along with it. A file gets the word alone: such a run can
be read and shown everywhere, but run again only by the program that has the object.
"""

from __future__ import annotations

import uuid

from ..errors import FedtierError

PREFIX = "python:"


class Held(str):
    """The text `python:NAME` with the object that it stands for."""

    value: object
    mark: str  # tells it from every other object, of this program or another

    def __new__(cls, name: str, value: object) -> Held:
        word = super().__new__(cls, PREFIX + name)
        word.value, word.mark = value, uuid.uuid4().hex
        return word

    def __getnewargs__(self) -> tuple[str, object]:
        return self.removeprefix(PREFIX), self.value


def is_object(word: object) -> bool:
    """Whether the word stands for an object, here or in the program that wrote it."""
    return isinstance(word, str) and word.startswith(PREFIX)


def is_elsewhere(word: object) -> bool:
    """Whether the word stands for an object that only the program that wrote it has."""
    return is_object(word) and not isinstance(word, Held)


def marked(word: object) -> object:
    """What tells the word from others: two objects of one name are two things, and no run of one is found for the other."""
    if isinstance(word, list):
        return [marked(one) for one in word]
    return f"{word} {word.mark}" if isinstance(word, Held) else word


def value_of(key: str, word: object) -> object:
    """The object of a word that holds one, any other value as it is; refuses a word whose object is elsewhere."""
    if isinstance(word, Held):
        return word.value
    if is_object(word):
        raise FedtierError(key, word, "was an object of a Python program, which no file holds", "run it from that program")
    return word
