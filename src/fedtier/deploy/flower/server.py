"""The ServerApp that Flower loads: plays the run file that the app's configuration names into a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...compilation import configure_jax
from ...experiments.progress import Progress
from ...protocol import Ask, ServerSeal, read_identity
from ...storage.files import make_private, private_files
from ..server import serve_rounds
from ..settings import load_run_file
from .paths import path_of
from .transport import server_app


def serve_run(config: dict[str, Any], connect: Callable[[Sequence[str]], Ask]) -> None:
    """Starts the run in the folder `out`, or goes on with the one that is there; letters are signed with the key in `keys`."""
    file, folder, keys = (path_of(config, key, "[tool.flwr.app.config]") for key in ("run", "out", "keys"))
    configure_jax()
    seal = ServerSeal(read_identity(keys))
    make_private(folder)
    with private_files():
        serve_rounds(file, folder, connect(load_run_file(file).wire.sites), progress=Progress(), seal=seal)


app = server_app(serve_run)
