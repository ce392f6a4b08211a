"""Where a method runs: compiled (fast), messages (readable, and what a wire carries), and adapters of runtimes."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .battery import check_method, check_problem
    from .compiled import compiled
    from .engine import Advance, Engine, Evaluate, Init, Measure, State
    from .messages import messages
    from .sweep import sweep

__all__ = [
    "Advance", "Engine", "Evaluate", "Init", "Measure", "State", "check_method", "check_problem", "compiled", "messages",
    "sweep",
]  # fmt: skip

lazily(
    __name__,
    {
        "Advance": "engine", "Engine": "engine", "Evaluate": "engine", "Init": "engine", "Measure": "engine", "State": "engine",
        "check_method": "battery", "check_problem": "battery", "compiled": "compiled", "messages": "messages", "sweep": "sweep",
    },
)  # fmt: skip
