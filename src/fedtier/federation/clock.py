"""A virtual clock: how long each client takes. Completion times never depend on the models, so the host plays them once.

seconds of a job of H steps at client i  =  latency + H step_seconds slowness_i
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..errors import not_negative, positive, require, whole


class Clock(NamedTuple):
    """The speeds of all clients."""

    slowness: Float[np.ndarray, "m"]  # 1 for a client that is as fast as any can be
    step_seconds: float  # of a local step where slowness is 1
    latency: float  # seconds of a job that are no local step: both messages

    def takes(self, clients: Int[np.ndarray, "..."], steps: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The seconds from the broadcast to the reply."""
        return np.asarray(self.latency + self.step_seconds * self.slowness[clients] * steps)


def make_clock(
    rng: np.random.Generator, *, clients: int, speed_spread: float = 1.0, step_seconds: float = 1.0, latency: float = 0.0
) -> Clock:
    """Slowness log-uniform on [1, speed_spread]: the slowest client may take `speed_spread` times as long as the fastest."""
    whole("clients", clients)
    positive("speed_spread", speed_spread)
    require(speed_spread >= 1, "speed_spread", speed_spread, "must be at least 1", "1: all clients are equally fast")
    positive("step_seconds", step_seconds)
    not_negative("latency", latency)
    return Clock(float(speed_spread) ** rng.random(clients), float(step_seconds), float(latency))
