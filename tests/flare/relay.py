"""A TCP relay between sites and server: counts what really crosses, TLS and FLARE's frames included, and can cut it."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from contextlib import suppress

from .federation import Federation

LOOK = 0.1  # seconds between two looks at whether the connection was reset
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


class Relay:
    """Listens on a free port, forwards to `port`; `up` and `down` are bytes so far, over all connections."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.up = self.down = 0
        self.flows = threading.Event()  # cleared: a black hole, into which everything falls until it is set again
        self.flows.set()
        self._life = 0  # connections of an earlier one are reset
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Every connection ends as when a router forgets it: with a reset at both ends."""
        self._life += 1
        time.sleep(2 * LOOK)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.flows.wait()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._pump, args=(client, server, "up"), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, "down"), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        life = self._life
        with suppress(OSError, ValueError):  # ValueError: the other direction has closed both ends
            while self._life == life:
                if not select.select([source], [], [], LOOK)[0]:
                    continue
                self.flows.wait()
                data = source.recv(1 << 16)
                if not data:
                    break
                with self._lock:
                    setattr(self, way, getattr(self, way) + len(data))
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                if self._life == life:
                    end.shutdown(socket.SHUT_RDWR)
                else:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()

    def close(self) -> None:
        self._listener.close()


def through(made: Federation, relay: Relay) -> None:
    """Sites dial the relay instead of the server."""
    for site in made.sites:
        path = made.root / "kits" / site / "startup/fed_client.json"
        path.write_text(path.read_text().replace(str(made.port), str(relay.port)))
