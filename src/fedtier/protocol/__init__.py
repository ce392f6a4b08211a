"""The wire without a runtime: letters, a round driver for the server, a site that remembers, its process.

An adapter carries bytes: it gives the driver an `ask`, and calls `answer` at each site. See `driver`, `site`, `process`.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from . import foreign
    from .arrivals import Arrivals
    from .asynchronous import AsyncDriver
    from .contact import Interrupted, drive
    from .driver import Driver
    from .ledger import Job, Ledger, Rules
    from .letters import Ask, Letters, Scores
    from .limits import Limits
    from .loopback import loopback
    from .memory import Memory
    from .player import Keep, Player
    from .post import Post
    from .process import SolverProcess, answer_letters
    from .record import Record, verify_record
    from .secure.at_site import Masked
    from .secure.driver import MaskedDriver
    from .secure.settings import Masking
    from .shapes import Shapes, message_shapes
    from .signatures import ServerSeal, SiteSeal, read_identity
    from .site import Site

__all__ = [
    "Arrivals",
    "Ask",
    "AsyncDriver",
    "Driver",
    "Interrupted",
    "Job",
    "Keep",
    "Ledger",
    "Letters",
    "Limits",
    "Masked",
    "MaskedDriver",
    "Masking",
    "Memory",
    "Player",
    "Post",
    "Record",
    "Rules",
    "Scores",
    "ServerSeal",
    "Shapes",
    "Site",
    "SiteSeal",
    "SolverProcess",
    "answer_letters",
    "drive",
    "foreign",
    "loopback",
    "message_shapes",
    "read_identity",
    "verify_record",
]  # fmt: skip

lazily(
    __name__,
    {
        "Arrivals": "arrivals",
        "Ask": "letters",
        "AsyncDriver": "asynchronous",
        "Driver": "driver",
        "Interrupted": "contact",
        "Job": "ledger",
        "Keep": "player",
        "Ledger": "ledger",
        "Letters": "letters",
        "Limits": "limits",
        "Masked": "secure.at_site",
        "MaskedDriver": "secure.driver",
        "Masking": "secure.settings",
        "Memory": "memory",
        "Player": "player",
        "Post": "post",
        "Record": "record",
        "Rules": "ledger",
        "Scores": "letters",
        "ServerSeal": "signatures",
        "Shapes": "shapes",
        "Site": "site",
        "SiteSeal": "signatures",
        "SolverProcess": "process",
        "drive": "contact",
        "foreign": "",
        "loopback": "loopback",
        "message_shapes": "shapes",
        "answer_letters": "process",
        "read_identity": "signatures",
        "verify_record": "record",
    },
)
