"""The ServerApp that Flower loads: plays the run file that the app's configuration names into a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...engines.flower.server import server_app
from ...engines.wire import Ask
from ..cache import use_compilation_cache
from ..progress import Progress
from ..wire import play as play_rounds
from ..wire import read
from .paths import path_of


def play(config: dict[str, Any], connect: Callable[[Sequence[str]], Ask]) -> None:
    """Starts the run in the folder `out`, or goes on with the one that is there."""
    file, folder = (path_of(config, key, "[tool.flwr.app.config]") for key in ("run", "out"))
    use_compilation_cache()
    play_rounds(file, folder, connect(read(file).wire.sites), progress=Progress(quiet=True))


app = server_app(play)
