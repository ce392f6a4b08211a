"""What Flower loads: `server` plays a run file into a run folder, `client` is a site. Needs the extra `flower`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...engines.flower.client import client_app
from ...engines.flower.server import server_app
from ...engines.wire import Ask
from ...errors import require


def play(config: dict[str, Any], connect: Callable[[Sequence[str]], Ask]) -> None:
    """The run that the app's configuration names; goes on with the one that is in the folder."""
    from ..cache import use_compilation_cache
    from ..progress import Progress
    from ..wire import play as play_rounds
    from ..wire import read

    file, folder = (_path(config, key, "[tool.flwr.app.config]") for key in ("run", "out"))
    use_compilation_cache()
    play_rounds(file, folder, connect(read(file).wire.sites), progress=Progress(quiet=True))


def answer(config: dict[str, Any], letter: bytes) -> bytes:
    """The reply of the site that the node's configuration names. JAX is loaded here, not to say who one is."""
    from ..cache import use_compilation_cache
    from ..wire import open_site

    file, state = (_path(config, key, "--node-config") for key in ("site", "state"))
    use_compilation_cache()
    site = open_site(file, state)
    try:
        return site.answer(letter)
    finally:
        site.close()


def _path(config: dict[str, Any], key: str, where: str) -> Path:
    value = config.get(key)
    require(isinstance(value, str) and bool(value), key, value, f"must be a path in {where}")
    return Path(str(value))


server = server_app(play)
client = client_app(answer)
