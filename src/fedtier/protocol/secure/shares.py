"""Shamir's shares (1979) of a secret of 32 bytes: any `threshold` of them tell it, fewer tell nothing at all about it.

The secret is a polynomial's value at 0 over the integers modulo PRIME, the share of seat k its value at k + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...errors import NOTHING, require
from .derive import SECRET, derived

PRIME = 2**256 + 297  # the smallest above 2^256: every secret of 32 bytes lies below it
SHARE = 33  # bytes


def shares_of(secret: bytes, threshold: int, seats: Iterable[int], seed: bytes) -> dict[int, bytes]:
    """A share for each seat. The coefficients are derived from `seed`, which whoever shares keeps to itself."""
    wide = SHARE + 16  # so many bytes modulo PRIME are uniform up to 2^-128
    drawn = [
        int.from_bytes(derived(seed, b"coefficient", k.to_bytes(4, "little"), size=wide), "little") % PRIME
        for k in range(1, threshold)
    ]
    coefficients = [int.from_bytes(secret, "little"), *drawn]
    return {seat: _value(coefficients, seat + 1).to_bytes(SHARE, "little") for seat in seats}


def secret_of(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from the shares of `threshold` seats or more, of which the first ones are used."""
    require(len(shares) >= threshold, "shares", len(shares), f"{threshold} are needed")
    points = [(seat + 1, int.from_bytes(shares[seat], "little") % PRIME) for seat in sorted(shares)[:threshold]]
    found = 0
    for x, y in points:
        top = bottom = 1
        for other, _ in points:
            if other != x:
                top, bottom = top * other % PRIME, bottom * (other - x) % PRIME
        found = (found + y * top * pow(bottom, -1, PRIME)) % PRIME
    require(found < 1 << 8 * SECRET, "shares", NOTHING, "do not belong together: a site has revealed a wrong one")
    return found.to_bytes(SECRET, "little")


def _value(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
