"""One number of the page, with its name and what it means."""

from __future__ import annotations

from typing import NamedTuple

from ...theory.numbers import Number


class Line(NamedTuple):
    name: str
    number: Number
    words: str = ""
