"""What a site is willing to do, whatever the server asks, and how fast it is."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import not_negative, share, whole


class Limits(NamedTuple):
    """What a site is willing to do, whatever the server asks."""

    max_steps: int | None = None  # local steps a round
    seconds: float | None = None  # a round's time: as many steps as fit, by the pace measured so far
    participation: float = 1.0  # share of the rounds it takes part in
    share_scores: bool = True  # tell the server the accuracies on its own rows

    def check(self) -> Limits:
        if self.max_steps is not None:
            whole("max_steps", self.max_steps, 0)
        if self.seconds is not None:
            not_negative("seconds", self.seconds)
        share("participation", self.participation, one=True)
        return self


NO_LIMITS = Limits()


class Pace:
    """Seconds that a round takes here: `overhead`, and for each step the slower of the last round's pace and the average."""

    def __init__(self) -> None:
        self._overhead = self._latest = self._average = 0.0

    def learn(self, steps: int, seconds: float) -> None:
        if steps == 0:
            self._overhead = seconds
            return
        self._latest = max(seconds - self._overhead, 0.0) / steps
        self._average = self._latest if self._average == 0 else 0.8 * self._average + 0.2 * self._latest

    def fit(self, seconds: float) -> int:
        """Steps that fit into `seconds`; at least 1, or a site that was slow once would never find out that it no longer is."""
        pace = max(self._latest, self._average)
        return max(1, int((seconds - self._overhead) / pace)) if pace > 0 else 1
