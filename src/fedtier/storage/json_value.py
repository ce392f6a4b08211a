"""The type of what JSON and TOML can say, and how a part of it is taken out: as what it must be, or TypeError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever checks annotations while the program runs looks at the outermost kind only
    Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
else:
    Json = None | bool | int | float | str | Sequence | Mapping


def as_object(value: Json) -> dict[str, Json]:
    """An object of JSON, a table of TOML."""
    if isinstance(value, dict):
        return value
    raise TypeError(f"{value!r} must be an object")


def as_list(value: Json) -> list[Json]:
    """A list, or what a program gives as a tuple."""
    if isinstance(value, list | tuple):
        return list(value)
    raise TypeError(f"{value!r} must be a list")


def as_text(value: Json) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise TypeError(f"{value!r} must be a text")


def as_number(value: Json) -> float:
    """A number, whole or not."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} must be a number")


def as_whole(value: Json) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} must be a whole number")
