"""Where a method runs: compiled (fast), messages (readable, and what a wire would carry)."""

from .compiled import compiled
from .engine import Engine, State
from .messages import messages

__all__ = ["Engine", "State", "compiled", "messages"]
