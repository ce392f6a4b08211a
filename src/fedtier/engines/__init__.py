"""Where a method runs: compiled (fast), messages (readable, and what a wire would carry)."""

from .battery import check_method, check_problem
from .compiled import compiled
from .engine import Engine, State
from .messages import messages

__all__ = ["Engine", "State", "check_method", "check_problem", "compiled", "messages"]
