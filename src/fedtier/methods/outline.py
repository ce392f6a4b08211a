"""Shapes of a method's states and messages without tracing what does not change them: local steps, checks by computing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OUTLINED: ContextVar[bool] = ContextVar("outlined", default=False)


@contextmanager
def outlined() -> Iterator[None]:
    """Inside, a solve is not traced: it gives other values of its start's shapes. For who asks a method for shapes alone;
    nothing that was traced here may be run."""
    token = _OUTLINED.set(True)
    try:
        yield
    finally:
        _OUTLINED.reset(token)


def is_outlined() -> bool:
    """Do shapes alone matter?"""
    return _OUTLINED.get()
