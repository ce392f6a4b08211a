"""Numbers as whole numbers modulo 2^32: a sum of masked ones is the masked sum.

A number v with |v| <= bound becomes round(v scale). `scale` is the largest power of two with which the sum over `most` terms
still fits into a signed word, so nothing wraps: what lies outside the bound is refused, by name, before it is added.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt32

from ...errors import FedtierError, positive, require, whole

WORD = 32  # bits
LARGEST = 2 ** (WORD - 1) - 1


class OutOfRange(FedtierError):
    """A number that a masked sum has no room for."""


class Grid(NamedTuple):
    """The steps on which numbers lie."""

    bound: float  # of one number, either way
    most: int  # terms of a sum
    spread: float = 0.0  # beyond the bound, that the sum as a whole may have: noise

    def check(self) -> Grid:
        positive("range", self.bound)
        whole("most", self.most)
        rule = f"is too wide for {WORD} bits: {self.most} sites would have steps above 1"
        require(self.exponent >= 0, "range", self.bound, rule, "lower it")
        return self

    @property
    def exponent(self) -> int:
        """log2 of the scale."""
        return math.floor(math.log2((LARGEST - self.most) / (self.most * self.bound + self.spread)))

    @property
    def scale(self) -> float:
        return 2.0**self.exponent

    @property
    def step(self) -> float:
        """Rounding moves a number by half of it at most, and so a mean."""
        return 1 / self.scale

    def whole_numbers(self, values: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The values on the grid; refused where one lies outside the bound or is no number."""
        largest = float(np.max(np.abs(values), initial=0.0))
        fits = largest <= self.bound  # false of NaN, too
        rule = f"is outside the range of {self.bound:g} in which sums are masked"
        if not fits:
            raise OutOfRange("the reply", f"{largest:.6g}", rule, "raise wire.range, or lower the step sizes")
        return np.rint(np.asarray(values, np.float64) * self.scale).astype(np.int64)

    def numbers(self, words: UInt32[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """What a sum of words stands for."""
        return words.astype(np.uint32).view(np.int32).astype(np.float64) / self.scale


def as_words(whole_numbers: Int[np.ndarray, "n"]) -> UInt32[np.ndarray, "n"]:
    """Modulo 2^32."""
    return (whole_numbers & 0xFFFFFFFF).astype(np.uint32)
