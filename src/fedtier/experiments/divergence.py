"""When a seed will not come back: no reply counts, or its loss is out of all proportion; and what to lower then."""

from __future__ import annotations

import numpy as np

from ..engines import Replies, State
from ..errors import FedtierError
from .assemble import Experiment
from .metrics import Scores
from .tables import Config

DIVERGED = 1000.0  # a loss so many times that of round 0 will not come back
STEERS = ("server_lr", "client_lr", "penalty", "lr")  # keys that make a run wild when they are too large


class Diverged(FedtierError):
    """The run has no end with these settings; the state before is on disk."""


def steering(config: Config) -> list[str]:
    """The keys of this method that may be too large; the penalty where it minimises f2 too, which that scales."""
    coupled = config.method.entry.family == "two levels" and config.method.problem is None
    return [key for key in STEERS if key in config.method.options or (key == "penalty" and coupled)]


def unheard(experiment: Experiment, state: State, stop: int) -> dict[int, str]:
    """The seeds in which not one reply has counted though half of the clients or more have sent one."""
    assert isinstance(state.replies, Replies)
    lost = np.asarray(state.replies.not_finite).sum(axis=1) + np.asarray(state.replies.too_large).sum(axis=1)
    why = {}
    for s, count in enumerate(lost.tolist()):
        senders = experiment.plan.ids[s, :stop][experiment.plan.arrived[s, :stop]]
        if count == len(senders) and 2 * len(np.unique(senders)) >= experiment.clients:
            why[s] = "every reply was lost: not finite, or too large"
    return why


def too_large(scores: Scores, first_loss: float) -> dict[int, str]:
    """The seeds whose loss will not come back, and why: on the server's rows or on the test rows, for a model that fits the
    former may be wild. A method without a global model has no loss."""
    losses = np.fmax(scores.f1, scores.global_loss)  # the one that is a number
    wild = np.flatnonzero(losses > DIVERGED * max(1.0, first_loss)).tolist()
    return {s: f"the loss rose from {first_loss:.3g} to {losses[s]:.3g}" for s in wild}
