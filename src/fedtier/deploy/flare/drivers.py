# pyright: reportMissingImports=false
"""FLARE with the one way to carry bytes that our kits name: TCP with TLS.

With its first connection FLARE 2.9 loads every transport it knows, among them gRPC and two HTTP libraries: half a second of
processor time and 13 MB in each of its processes, of which a site has two.
"""

from __future__ import annotations

from nvflare.fuel.f3 import communicator
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver


def install() -> None:
    """In this process's FLARE, before its first connection; a second time changes nothing."""
    if not communicator.driver_loaded:
        communicator.driver_mgr.register(TcpDriver)
        communicator.driver_loaded = True
