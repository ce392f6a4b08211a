"""What comes around letters, whatever they hold: our seal, and FLARE's headers with a signed token, acknowledgements, TLS.

Measured on the socket with FLARE 2.9 (tests/flare/test_bytes.py); a message above one megabyte is cut into pieces, each of
which has a frame.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.signatures import SEAL

DOWN, UP = 2_350, 2_700  # bytes for one letter and its reply


class Wire(NamedTuple):
    down: int
    up: int


def on_the_wire(bytes_down: int, bytes_up: int, exchanges: int) -> Wire:
    """The bytes that cross the network for so many bytes of letters in so many exchanges of a letter and its reply."""
    return Wire(bytes_down + (DOWN + SEAL.size) * exchanges, bytes_up + (UP + SEAL.size) * exchanges)
