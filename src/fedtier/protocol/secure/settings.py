"""Who takes part in a sum, how many must, and in which range: what all parties of a run are told alike."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...errors import require, whole
from .fixed_point import Grid

SPREADS = 12  # deviations of a sum's noise that never wrap: beyond lies 1e-32


class Masking(NamedTuple):
    """The settings of a run whose sums are masked."""

    sites: tuple[str, ...]  # [m] names; client i is sites[i]
    cohort: int  # k: sites of a round at most, and so terms of a sum
    threshold: int  # t: sites without which nothing is unmasked
    bound: float  # of one number of a reply
    clip: float = 0.0  # of a reply as a whole, where sites add noise
    noise: float = 0.0  # sigma in units of what one site can change, of the sum over t sites; 0: none

    def check(self) -> Masking:
        whole("threshold", self.threshold, 2, "a sum of one is no sum")
        fits = self.threshold <= self.cohort < 2 * self.threshold
        rule = f"must be more than half of the {self.cohort} sites of a round, and no more than there are"
        require(fits, "threshold", self.threshold, rule, f"{default_threshold(self.cohort)}")
        self.grid.check()
        return self

    @property
    def grid(self) -> Grid:
        spread = SPREADS * self.noise * self.clip * math.sqrt(self.cohort / self.threshold)
        return Grid(self.bound, self.cohort, 1.01 * spread)

    def sensitivity(self, numbers: int) -> float:
        """In steps of the grid: how long a clipped reply of so many numbers can be once it is rounded."""
        return self.clip * self.grid.scale * (1 + 1e-9) + math.sqrt(numbers) / 2

    def variance(self, numbers: int) -> int:
        """Of the noise that each site adds to each number, in steps of the grid: t of them make sigma."""
        return math.ceil((self.noise * self.sensitivity(numbers)) ** 2 / self.threshold)


def default_threshold(cohort: int) -> int:
    """Two thirds, rounded up: with fewer colluding sites than a third, no site is ever seen alone."""
    return max(2, math.ceil(2 * cohort / 3))
