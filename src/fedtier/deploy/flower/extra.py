"""Whether Flower is installed, asked before any work."""

from __future__ import annotations

import importlib.util

from ...errors import NOTHING, FedtierError


def need_flower() -> None:
    """Refuses to go on without the extra, with the line that installs it."""
    if importlib.util.find_spec("flwr") is None:
        raise FedtierError("flwr", NOTHING, "is not installed", 'pip install "fedtier[flower]"')
