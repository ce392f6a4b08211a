"""A folder for what nobody asked to keep."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """A new folder that is removed when the last object that holds this one is gone, or the program ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fedtier-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
