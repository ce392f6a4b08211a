"""Whether FLARE is installed, asked before any work."""

from __future__ import annotations

import importlib.util

from ...errors import NOTHING, FedtierError


def need_flare() -> None:
    """Refuses to go on without the extra, with the line that installs it."""
    if importlib.util.find_spec("nvflare") is None:
        raise FedtierError("nvflare", NOTHING, "is not installed", 'pip install "fedtier[flare]"')
