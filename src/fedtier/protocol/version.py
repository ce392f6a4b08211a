"""Which versions of fedtier understand each other: those that differ in the last of their three numbers only.

A hello begins with the server's version, which is no part of the brief: a server may be upgraded within a run. The site refuses
a version that it does not understand, in words; its welcome tells its own.
"""

from __future__ import annotations

import re

from .. import __version__
from ..errors import FedtierError, require

OURS = __version__


def numbers(version: str) -> tuple[int, int, int]:
    """The three numbers at the beginning of a version's name."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version)
    if found is None:
        raise FedtierError("version", version[:20], "is no version of fedtier")
    first, second, third = map(int, found.groups())
    return first, second, third


def greeting(brief: str) -> bytes:
    """The own part of a hello."""
    return f"{OURS}\n{brief}".encode()


def read_greeting(own: bytes) -> str:
    """The brief of a hello whose server runs a version that this site understands."""
    theirs, end, brief = own.decode().partition("\n")
    require(bool(end), "hello", f"{len(own)} bytes", "does not begin with a version", "is the server's fedtier too old?")
    fits = numbers(theirs)[:2] == numbers(OURS)[:2]
    series = ".".join(map(str, numbers(OURS)[:2]))
    rule = f"this site runs {OURS} and understands {series}.x"
    require(fits, "version", theirs[:20], rule, "install the same version at all parties")
    return brief
