# pyright: reportMissingImports=false
"""FLARE's client at a site, quick to be there when the server is.

    python -m fedtier.deploy.flare.client ...        as nvflare.private.fed.app.client.client_train ...

A site that waits dials every DIAL seconds (FLARE: every ten), and has the process of the next job ready (`ahead`).
"""

from __future__ import annotations

import runpy

from nvflare.fuel.f3.sfm import conn_manager

from . import ahead, drivers

DIAL = 3  # seconds; also from where on FLARE writes into its log why it could not connect
CLIENT = "nvflare.private.fed.app.client.client_train"

if __name__ == "__main__":
    conn_manager.MAX_WAIT = conn_manager.SILENT_RECONNECT_TIME = DIAL
    drivers.install()
    ahead.install(ahead.AT_SITE)
    runpy.run_module(CLIENT, run_name="__main__", alter_sys=True)
