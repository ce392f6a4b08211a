"""A method is one row: what must be known of it before it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .flat import Parts
from .method import Method


class Entry(NamedTuple):
    """What depends on a method's parts (how many solves a round, whether it may have a seat for the server, ...) is in the
    fields of the `Method` itself, so that a method of one's own has it too."""

    factory: Callable[..., Method]  # (problem, parts) -> Method
    flat: Callable[..., Parts]  # the keys of [method] -> the parts
    title: str  # in reports
    family: str
    summary: str
    reference: str = ""  # BibTeX; empty for the references of our own
    recommended: Mapping[str, Any] = {}  # the keys of preset = "recommended" that differ from the paper's
    gives_way: Mapping[tuple[str, Any], Mapping[str, Any]] = {}  # a key and its value -> what the preset then has instead
    linear: bool = False  # is it for linear models alone?
    grid: Mapping[str, list[float]] = {}  # what a tuned comparison searches: 16 points, a step by its size
