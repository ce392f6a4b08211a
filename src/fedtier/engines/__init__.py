"""Where a method runs: compiled (fast), messages (readable, and what a wire carries), and adapters of runtimes."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .battery import check_method, check_problem
    from .compiled import compiled
    from .engine import Advance, Engine, Evaluate, Init, Measure, State, finite_seeds, global_models, keep_seeds
    from .messages import messages
    from .replies import Replies
    from .sweep import sweep

__all__ = [
    "Advance", "Engine", "Evaluate", "Init", "Measure", "Replies", "State", "check_method", "check_problem", "compiled",
    "finite_seeds", "global_models", "keep_seeds", "messages", "sweep",
]  # fmt: skip

lazily(
    __name__,
    {
        "Advance": "engine", "Engine": "engine", "Evaluate": "engine", "Init": "engine", "Measure": "engine",
        "Replies": "replies", "State": "engine", "check_method": "battery", "check_problem": "battery", "compiled": "compiled",
        "finite_seeds": "engine", "global_models": "engine", "keep_seeds": "engine", "messages": "messages", "sweep": "sweep",
    },
)  # fmt: skip
