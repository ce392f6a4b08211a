"""A folder that nobody asked for: it goes when the object does."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """A new folder among the system's temporary ones, removed with the last reference to this object."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fedtier-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
