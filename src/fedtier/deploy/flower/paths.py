"""Paths from a configuration of Flower's, which knows strings and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import require


def path_of(config: dict[str, Any], key: str, where: str) -> Path:
    value = config.get(key)
    require(isinstance(value, str) and bool(value), key, value, f"must be a path in {where}")
    return Path(str(value))
