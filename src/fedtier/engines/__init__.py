"""Where a method runs: compiled (fast), messages (readable, and what a wire would carry)."""

from .devices import use_all_cores  # isort: skip

use_all_cores()  # before anything is computed: JAX counts its devices once

from .battery import check_method, check_problem  # noqa: E402
from .compiled import compiled  # noqa: E402
from .engine import Engine, State  # noqa: E402
from .messages import messages  # noqa: E402

__all__ = ["Engine", "State", "check_method", "check_problem", "compiled", "messages"]
