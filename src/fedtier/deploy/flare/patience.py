"""Which sites are worth waiting for: one that comes and goes is set aside, longer each time, and taken back after that.

A round waits for a site that went away as long as the deadline allows: right for one that crashed, ruinous for one that
crashes again and again. A site is lost when it had answered and now does not. From the third loss within WINDOW on it is
not asked for 15, 30, 60, ... 600 seconds; the driver sees silence at once and plays on with the others, as far as the quorum
lets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

WINDOW = 600.0  # seconds in which losses add up
FREE = 2  # losses in it without consequences
FIRST, LONGEST = 15.0, 600.0  # seconds aside


class Patience:
    """Used by the threads that ask; `note` gets a line when a site is set aside, and one when it is taken back."""

    def __init__(self, note: Callable[[str], None] = lambda line: None) -> None:
        self.note = note
        self.losses: dict[str, list[float]] = {}
        self.aside: dict[str, float] = {}  # until when
        self._answered: set[str] = set()
        self._lock = threading.Lock()

    def asks(self, site: str, now: float) -> bool:
        """Whether the site is to be asked now."""
        with self._lock:
            if site not in self.aside:
                return True
            if now < self.aside[site]:
                return False
            del self.aside[site]
        self.note(f"{site}: is asked again")
        return True

    def came(self, site: str) -> None:
        with self._lock:
            self._answered.add(site)

    def lost(self, site: str, now: float) -> None:
        """It was asked and did not answer."""
        with self._lock:
            if site not in self._answered:
                return
            self._answered.discard(site)
            recent = [moment for moment in self.losses.get(site, []) if now - moment < WINDOW] + [now]
            self.losses[site] = recent
            extra = len(recent) - FREE
            if extra <= 0:
                return
            pause = min(LONGEST, FIRST * 2 ** (extra - 1))
            self.aside[site] = now + pause
        self.note(f"{site}: lost {len(recent)} times in {WINDOW / 60:.0f} minutes; set aside for {pause:.0f} s")
