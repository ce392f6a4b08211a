"""Arguments of a program as the words and numbers of a configuration, and refusals that name arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FedtierError
from ..experiments.tables import TABLES
from ..own_code.held import Held

PLAIN = (str, bool, int, float)


def word(value: Any) -> Any:
    """The value as a configuration has it: a plain one as it is, an object held by a word."""
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, PLAIN):
        return value
    if type(value) in (list, tuple):  # not a tuple with names: a part is one
        return [word(one) for one in value]
    if getattr(value, "ndim", 1) == 0:  # a number of NumPy or JAX
        return np.asarray(value).item()
    return Held(_called(value), value)


def _called(value: Any) -> str:
    named = getattr(value, "__name__", None) or getattr(value, "name", None)
    return named if isinstance(named, str) and named.isidentifier() else type(value).__name__


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those that were given, as words; None means the default."""
    return {key: word(value) for key, value in arguments.items() if value is not None}


@contextmanager
def as_arguments() -> Iterator[None]:
    """Inside, a refusal of the key `data.alpha` names the argument `alpha`."""
    try:
        yield
    except FedtierError as error:
        table, dot, key = error.name.partition(".")
        if not dot or table not in TABLES:
            raise
        name = table if key == "name" else key  # method.name is the argument `method`
        raise type(error)(name, error.value, error.rule, error.hint) from error.__cause__
