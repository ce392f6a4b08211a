"""Compiled programs are kept between processes: the second start of anything is quick."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pooch


def use_compilation_cache() -> None:
    """FEDTIER_CACHE moves the folder, an empty value turns it off."""
    folder = os.environ.get("FEDTIER_CACHE", str(Path(pooch.os_cache("fedtier")) / "xla"))
    if folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
