"""What a site is willing to do, whatever the server asks, and how fast it is."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import not_negative, share, whole


class Limits(NamedTuple):
    """What a site is willing to do, whatever the server asks."""

    max_steps: int | None = None  # local steps a round
    seconds: float | None = None  # a round's time: as many steps as fit, by the pace measured so far
    participation: float = 1.0  # share of the rounds it takes part in
    share_scores: bool = True  # tell the server the accuracies on its own rows
    max_model_numbers: int | None = None  # numbers in a model, a message or a client's state

    def check(self) -> Limits:
        if self.max_steps is not None:
            whole("max_steps", self.max_steps, 0)
        if self.seconds is not None:
            not_negative("seconds", self.seconds)
        share("participation", self.participation, one=True)
        if self.max_model_numbers is not None:
            whole("max_model_numbers", self.max_model_numbers)
        return self


NO_LIMITS = Limits()


class Pace:
    """Seconds that a round takes here: an overhead, and for each step the slower of the last round's pace and the average.

    Clocks on a busy machine stutter. No round is shorter than its overhead, so the overhead is the shortest time seen; steps
    that were too short to be told from it are charged with all of their round. The average weighs a round by its steps, so
    that a few slow first ones are soon forgotten.
    """

    def __init__(self) -> None:
        self._overhead = math.inf
        self._latest = self._seconds = self._steps = 0.0

    def learn(self, steps: int, seconds: float) -> None:
        self._overhead = min(self._overhead, seconds)
        if steps == 0:
            return
        spent = seconds - self._overhead or seconds
        self._latest = spent / steps
        self._seconds, self._steps = 0.8 * self._seconds + spent, 0.8 * self._steps + steps

    def fit(self, seconds: float, most: int) -> int:
        """Steps of `most` that fit into `seconds`; at least 1, or a site that was slow once would never find out that it no
        longer is."""
        average = self._seconds / self._steps if self._steps else 0.0
        pace, left = max(self._latest, average), seconds - self._overhead
        if most * pace <= left:
            return most
        return min(most, max(1, int(left / pace))) if left > 0 else min(most, 1)
