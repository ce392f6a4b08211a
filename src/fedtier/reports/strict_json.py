"""JSON knows neither NaN nor infinity: null stands for a number that is not there."""

from __future__ import annotations

import math
from typing import Any


def known(content: Any) -> Any:
    """`content` with None in place of every float that is not finite, however deep it lies."""
    if isinstance(content, dict):
        return {key: known(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [known(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
