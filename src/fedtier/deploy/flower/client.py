"""The ClientApp that Flower loads: the site that the node's configuration names.

Flower loads it anew for each message; JAX is loaded only where there is something to compute.
"""

from __future__ import annotations

from typing import Any

from ...storage.files import private_files
from .node import client_app
from .paths import path_of


def answer(config: dict[str, Any], letter: bytes) -> bytes:
    """The site's reply; what it remembers is in the folder `state`."""
    from ...compilation import configure_jax
    from ..site import open_site

    file, state, keys = (path_of(config, key, "--node-config") for key in ("site", "state", "keys"))
    configure_jax()
    with private_files():
        site = open_site(file, state, keys)
        try:
            return site.answer(letter)
        finally:
            site.close()


app = client_app(answer)
