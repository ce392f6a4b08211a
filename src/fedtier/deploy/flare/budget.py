"""How much a party may send: for each a bucket of bytes and one of messages, filled at a fixed rate and with room for seconds.

Who sends faster is not hung up but read later: TCP makes the sender wait, and nobody else. The limits are the server's,
`wire.max_bytes_per_second` and `wire.max_messages_per_second`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

BURST = 10.0  # seconds' worth that may come at once


class Rate(NamedTuple):
    """A second."""

    bytes: float
    messages: float

    @classmethod
    def of(cls, text: str) -> Rate:
        size, count = text.split()
        return cls(float(size), float(count))

    @property
    def text(self) -> str:
        return f"{self.bytes!r} {self.messages!r}"


class Budget:
    """One party's, over all of its connections; `slowed` counts how often it had to wait."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.clock = rate, clock
        self.left = [BURST * rate.bytes, BURST * rate.messages]
        self.slowed = 0
        self._at, self._lock = clock(), threading.Lock()

    def spend(self, size: int) -> float:
        """The seconds to wait before the next message is read, after one of `size` bytes."""
        with self._lock:
            now = self.clock()
            passed, self._at = now - self._at, now
            debts = []
            for k, (cost, rate) in enumerate(zip((size, 1), self.rate, strict=True)):
                self.left[k] = min(BURST * rate, self.left[k] + passed * rate) - cost
                debts.append(-self.left[k] / rate)
            wait = max(0.0, *debts)
            self.slowed += wait > 0
            return wait
