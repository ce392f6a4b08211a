# pyright: reportMissingImports=false
"""FLARE's server with a door that strangers cannot block.

    python -m fedtier.deploy.flare.listener ...        as nvflare.private.fed.app.server.server_train ...

FLARE 2.9 shakes hands with each caller in the one thread that accepts calls: somebody who connects and says nothing keeps all
others out for as long as he likes. Here each handshake has a thread and HANDSHAKE seconds; at most PENDING of them, and
PENDING_EACH from one address, are under way at once, and a call beyond that is hung up. FLARE also makes room for as many
bytes as the first 16 of a message announce, up to 2 GB; here at most FRAME, for its own are of a megabyte and a header.
"""

from __future__ import annotations

import collections
import logging
import runpy
import socket
import threading
from typing import Any

from nvflare.fuel.f3.drivers import socket_conn, tcp_driver
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.net_utils import get_ssl_context

HANDSHAKE = 5.0  # seconds
PENDING, PENDING_EACH = 64, 16
FRAME = 16 << 20  # bytes
SERVER = "nvflare.private.fed.app.server.server_train"

log = logging.getLogger(__name__)


class Door(tcp_driver.TcpStreamServer):
    """Accepts calls at once and shakes hands in the caller's own thread."""

    daemon_threads = True

    def __init__(self, driver: Any, connector: Any) -> None:
        self.waiting: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()
        super().__init__(driver, connector)

    def get_request(self) -> tuple[socket.socket, Any]:
        return socket.socket.accept(self.socket)  # without the handshake of a listening socket with TLS

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self.lock:
            here = client_address[0]
            free = self.waiting.total() < PENDING and self.waiting[here] < PENDING_EACH
            self.waiting[here] += free
        return free

    def finish_request(self, request: Any, client_address: Any) -> None:
        link = self._shake_hands(request, client_address)
        with self.lock:
            self.waiting[client_address[0]] -= 1
            self.waiting = +self.waiting  # forgets addresses that wait no longer
        if link is not None:
            try:
                super().finish_request(link, client_address)
            finally:
                self.shutdown_request(link)

    def _shake_hands(self, request: Any, client_address: Any) -> Any:
        if not self.ssl_context:
            return request
        try:
            request.settimeout(HANDSHAKE)
            link = self.ssl_context.wrap_socket(request, server_side=True)
            link.settimeout(None)
            return link
        except OSError as error:  # ssl.SSLError is one, and so is the end of the time
            log.info(f"no handshake with {client_address[0]}: {error}")
            request.close()
            return None


def connect(self: Any, connector: Any) -> None:
    """FLARE's call to a server, with HANDSHAKE seconds for it to answer: FLARE's own waits for ever where one is stopped."""
    place = connector.params[DriverParams.HOST.value], int(connector.params[DriverParams.PORT.value])
    context = get_ssl_context(connector.params, ssl_server=False)
    link = socket.create_connection(place, timeout=HANDSHAKE)
    if context:
        link = context.wrap_socket(link)
    link.settimeout(None)
    self.connector = connector
    connection = socket_conn.SocketConnection(link, connector, bool(context))
    self.add_connection(connection)
    connection.read_loop()
    self.close_connection(connection)


def guard() -> None:
    """Puts all of this in its place, in this process."""
    tcp_driver.TcpStreamServer = Door
    tcp_driver.TcpDriver.connect = connect
    socket_conn.MAX_FRAME_SIZE = FRAME


if __name__ == "__main__":
    guard()
    runpy.run_module(SERVER, run_name="__main__", alter_sys=True)
