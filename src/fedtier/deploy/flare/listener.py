# pyright: reportMissingImports=false
"""FLARE's server with a door that strangers cannot block.

    python -m fedtier.deploy.flare.listener ...        as nvflare.private.fed.app.server.server_train ...

FLARE 2.9 shakes hands with each caller in the one thread that accepts calls: somebody who connects and says nothing keeps all
others out for as long as he likes. Here each handshake has a thread and HANDSHAKE seconds; at most PENDING of them, and
PENDING_EACH from one address, are under way at once, and a call beyond that is hung up. FLARE also makes room for as many
bytes as the first 16 of a message announce, up to 2 GB; here at most FRAME, for its own are of a megabyte and a header. Nor
does FLARE's server put a longer message together from pieces (in the server's job, `allowance` decides that).
Whose certificate the authority has revoked is refused, and cut off within LOOK seconds (`peers`). Who sends faster than the
server allows is read later (`budget`).
"""

from __future__ import annotations

import collections
import logging
import os
import runpy
import socket
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.fuel.f3 import comm_config
from nvflare.fuel.f3.drivers import socket_conn, tcp_driver
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.net_utils import get_ssl_context

from . import ahead, drivers, rejoin, sweeper, tokens
from .budget import Rate
from .names import KEYS, RATE
from .peers import PARTIES, Peers, Tally, peer_of
from .supervise import MARK
from .validity import revoked_file

HANDSHAKE = 5.0  # seconds
PENDING, PENDING_EACH = 64, 16
FRAME = 16 << 20  # bytes
LOOK = 1.0  # seconds between two looks at the list of revoked certificates
RECEIVE = socket_conn.SocketConnection.process_frame
SERVER = "nvflare.private.fed.app.server.server_train"

log = logging.getLogger(__name__)


class Door(tcp_driver.TcpStreamServer):
    """Accepts calls at once and shakes hands in the caller's own thread."""

    daemon_threads = True

    def __init__(self, driver: Any, connector: Any) -> None:
        self.waiting: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()
        self.peers, self.refusals = Peers(), Tally()
        super().__init__(driver, connector)
        if self.ssl_context and KEYS in os.environ:
            notes = Path(os.environ[MARK]) / PARTIES
            rate = Rate.of(os.environ[RATE]) if RATE in os.environ else None
            self.peers = Peers(revoked_file(Path(os.environ[KEYS]).parent), notes, rate)
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Cuts off whose certificate is revoked while he is inside."""
        while True:
            for line in self.peers.cut():
                log.warning(line)
            for name in self.peers.slow():
                log.warning(f"{name}: sends faster than it may; slowed")
            time.sleep(LOOK)

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
                if self._known(link, client_address):
                    super().finish_request(link, client_address)
            finally:
                self.peers.leave(link)
                self.shutdown_request(link)

    def _known(self, link: Any, client_address: Any) -> bool:
        """Whether a caller whose certificate TLS has verified may come in."""
        if not self.ssl_context:
            return True
        peer = peer_of(link.getpeercert())
        refusal = self.peers.enter(link, peer)
        link.budget = self.peers.budget(peer.name)
        if refusal and self.refusals.worth_telling(peer.name):
            count = self.refusals.counts[peer.name]
            log.warning(f"{peer.name} at {client_address[0]}: refused: {refusal} ({count} times so far)")
        return not refusal

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


def process_frame(self: Any, frame: Any) -> None:
    """FLARE's, after which a party that sends faster than it may is not read for a while (`budget`)."""
    RECEIVE(self, frame)
    budget = getattr(self.sock, "budget", None)  # of callers at the door alone
    if budget is not None:
        wait = budget.spend(len(frame))
        if wait > 0:
            time.sleep(wait)


def guard() -> None:
    """Puts all of this in its place, in this process."""
    sweeper.install()
    drivers.install()
    socket_conn.SocketConnection.process_frame = process_frame
    tcp_driver.TcpStreamServer = Door
    tcp_driver.TcpDriver.connect = connect
    socket_conn.MAX_FRAME_SIZE = comm_config.DEFAULT_STREAMING_MAX_BLOB_SIZE = FRAME


if __name__ == "__main__":
    guard()
    rejoin.install()
    tokens.install(Path(os.environ[MARK]))
    ahead.install(ahead.AT_SERVER)
    runpy.run_module(SERVER, run_name="__main__", alter_sys=True)
