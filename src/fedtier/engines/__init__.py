"""Where a method runs: compiled (fast), messages (readable, and what a wire carries), and adapters of runtimes."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .battery import check_method, check_problem
    from .compiled import compiled
    from .engine import Engine, State
    from .messages import messages

__all__ = ["Engine", "State", "check_method", "check_problem", "compiled", "messages"]

lazily(
    __name__,
    {
        "Engine": "engine", "State": "engine", "check_method": "battery", "check_problem": "battery",
        "compiled": "compiled", "messages": "messages",
    },
)  # fmt: skip
