"""What FLARE puts around letters, whatever they hold: headers with a signed token, acknowledgements, TLS.

Measured on the socket with FLARE 2.9 (tests/flare/test_bytes.py); a message above one megabyte is cut into pieces, each of
which has a frame.
"""

from __future__ import annotations

from typing import NamedTuple

DOWN, UP = 2_350, 2_700  # bytes for one letter and its reply


class Wire(NamedTuple):
    down: int
    up: int


def on_the_wire(bytes_down: int, bytes_up: int, exchanges: int) -> Wire:
    """The bytes that cross the network for so many bytes of letters in so many exchanges of a letter and its reply."""
    return Wire(bytes_down + DOWN * exchanges, bytes_up + UP * exchanges)
