"""The discrete Gaussian on the whole numbers, P(k) ~ exp(-k^2/(2 sigma^2)), drawn exactly: no floating-point noise has holes.

Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, https://arxiv.org/abs/2004.00010:
a discrete Laplace variable of scale t = floor(sigma) + 1 is taken with probability exp(-(|k| - sigma^2/t)^2/(2 sigma^2)).

A coin of probability exp(-g) compares 32 random bits with exp(-g) in double precision; where these bits and the doubt about the
last digits leave it open, once in some thousand million, more bits are drawn and compared with as many digits as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from ...errors import whole
from .derive import derived, stream

DOUBT = 2.0**-36  # more than exp of a double and what goes into it are ever off, as a probability
LARGEST_SIGMA = 2**27  # beyond it, 64 bits are short


class Bits:
    """Random bits of a seed, as many as are asked for."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._drawn = seed, 0

    def words(self, count: int) -> UInt32[np.ndarray, "count"]:
        self._drawn += 1
        fresh = derived(self._seed, b"bits", self._drawn.to_bytes(8, "little"))
        return np.frombuffer(stream(fresh, 4 * count), "<u4").astype(np.uint32)

    def below(self, size: int, count: int) -> Int[np.ndarray, "count"]:
        """Uniform on 0 .. size - 1."""
        shift = np.uint64(64 - max(1, (size - 1).bit_length()))
        found = np.empty(0, np.int64)
        while len(found) < count:
            pairs = self.words(2 * (2 * (count - len(found)) + 8)).astype(np.uint64)
            drawn = ((pairs[::2] << np.uint64(32) | pairs[1::2]) >> shift).astype(np.int64)
            found = np.concatenate([found, drawn[drawn < size]])
        return found[:count]

    def coins(self, exponents: Float[np.ndarray, "n"], exact: Callable[[int], Fraction]) -> Bool[np.ndarray, "n"]:
        """Coins of probability exp(-g), with g in double precision; `exact(k)` is the k-th as it is."""
        first, chance = self.words(len(exponents)).astype(np.float64) / 2**32, np.exp(-exponents)
        yes = first + 2.0**-32 <= chance - DOUBT
        for k in np.flatnonzero(~yes & (first < chance + DOUBT)):
            yes[k] = self._exactly(exact(int(k)), int(first[k] * 2**32))
        return yes

    def _exactly(self, exponent: Fraction, first: int) -> bool:
        """Is a uniform number that begins with the 32 bits `first` below exp(-exponent)?"""
        low, bits = first, 32
        with localcontext() as context:
            while True:
                for word in self.words(4):
                    low = low << 32 | int(word)
                bits += 128
                context.prec = bits // 3 + 40
                chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
                doubt = Decimal(10) ** -(context.prec - 20)
                unit = Decimal(2) ** -bits
                if low * unit + unit <= chance - doubt:
                    return True
                if low * unit >= chance + doubt:
                    return False


def discrete_gaussian(variance: int, count: int, seed: bytes) -> Int[np.ndarray, "count"]:
    """`count` draws of the discrete Gaussian of whole parameter sigma^2 = `variance`."""
    whole("variance", variance)
    whole("sigma", LARGEST_SIGMA - math.isqrt(variance))
    bits, scale = Bits(seed), math.isqrt(variance) + 1
    found = np.empty(0, np.int64)
    while len(found) < count:
        drawn = _laplace(bits, scale, 2 * (count - len(found)) + 8)
        size = np.abs(drawn)
        exponents = np.square(size - variance / scale) / (2 * variance)
        taken = bits.coins(exponents, lambda k: Fraction((int(size[k]) * scale - variance) ** 2, 2 * variance * scale**2))  # noqa: B023
        found = np.concatenate([found, drawn[taken]])
    return found[:count]


def _laplace(bits: Bits, scale: int, count: int) -> Int[np.ndarray, "some"]:
    """Draws with P(k) ~ exp(-|k|/scale); about `count`."""
    low = bits.below(scale, 2 * count)
    low = low[bits.coins(low / scale, lambda k: Fraction(int(low[k]), scale))]
    high, going = np.zeros(len(low), np.int64), np.arange(len(low))
    while len(going):
        going = going[bits.coins(np.ones(len(going)), lambda k: Fraction(1))]
        high[going] += 1
    size = low + scale * high
    sign = 1 - 2 * (bits.words(len(size)) & 1).astype(np.int64)
    return (sign * size)[(size > 0) | (sign > 0)]  # 0 has one sign
