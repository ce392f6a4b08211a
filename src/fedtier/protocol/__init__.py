"""The wire without a runtime: letters, a round driver for the server, a site that remembers, its process.

An adapter carries bytes: it gives the driver an `ask`, and calls `answer` at each site. See `driver`, `site`, `process`.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from . import foreign
    from .driver import Driver, Interrupted, drive
    from .ledger import Job, Ledger, Rules
    from .letters import Ask, Letters, Scores
    from .limits import Limits
    from .loopback import loopback
    from .memory import Memory
    from .process import SolverProcess, answer_letters
    from .shapes import Shapes, message_shapes
    from .site import Player, Site

__all__ = [
    "Ask",
    "Driver",
    "Interrupted",
    "Job",
    "Ledger",
    "Letters",
    "Limits",
    "Memory",
    "Player",
    "Rules",
    "Scores",
    "Shapes",
    "Site",
    "SolverProcess",
    "answer_letters",
    "drive",
    "foreign",
    "loopback",
    "message_shapes",
]  # fmt: skip

lazily(
    __name__,
    {
        "Ask": "letters",
        "Driver": "driver",
        "Interrupted": "driver",
        "Job": "ledger",
        "Ledger": "ledger",
        "Letters": "letters",
        "Limits": "limits",
        "Memory": "memory",
        "Player": "site",
        "Rules": "ledger",
        "Scores": "letters",
        "Shapes": "shapes",
        "Site": "site",
        "SolverProcess": "process",
        "drive": "driver",
        "loopback": "loopback",
        "message_shapes": "shapes",
        "answer_letters": "process",
    },
)
