"""`fedtier watch`: the page, its numbers and their stream, from the standard library's server. It only reads, and only four
addresses exist: no part of a question ever becomes the name of a file.

Every connection has a thread and a place among MOST; one that says nothing, or drips, is cut after SECONDS, and one beyond the
places is told so and closed, so that nobody can keep others out for long.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ...errors import FedtierError, require
from ..strict_json import known
from .guard import Guard, cookie_name, guard_for, resolved, token_in
from .prometheus import CONTENT_TYPE, exposition
from .state import State, as_object
from .watched import Watched

MOST = 64  # connections at once
MOST_STREAMS = 24  # of them, pages that are open
SECONDS = 10.0  # that a connection has to say what it wants, and to take each piece of the answer
BEAT = 1.0  # seconds between two looks at the folder while somebody watches
SIGN_OF_LIFE = 15.0  # seconds after which a stream without news says so
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NOTHING_MORE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Feed:
    """The folder's state for all who ask: looked at once in BEAT seconds, and only while somebody asks."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self._lock = watched, threading.Lock()
        self._state: State | None = None
        self._text, self._at = "", 0.0

    def now(self) -> tuple[State, str]:
        """(the state, the same as JSON on one line)."""
        with self._lock:
            if self._state is None or time.monotonic() - self._at >= 0.9 * BEAT:
                self._state = self.watched.look()
                self._text, self._at = json.dumps(known(as_object(self._state)), allow_nan=False), time.monotonic()
            return self._state, self._text


class Page:
    """The one page, and the policy that lets nothing run in it but its own script."""

    def __init__(self) -> None:
        text = resources.files(__package__ or "").joinpath("page.html").read_text(encoding="utf-8")
        self.data = text.encode()
        scripts, styles = (
            " ".join(f"'sha256-{_digest(part)}'" for part in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S))
            for tag in ("script", "style")
        )
        self.policy = f"{NOTHING_MORE}; script-src {scripts}; style-src {styles}; connect-src 'self'; img-src data:"


def _digest(part: str) -> str:
    return base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()


class WatchServer(ThreadingHTTPServer):
    """Listens from the moment it is made; `serve_forever` answers."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, watched: Watched, guard: Guard, port: int) -> None:
        require(0 <= port < 65536, "--port", port, "must be a port, 0 to 65535", "0 takes a free one")
        self.guard, self.feed, self.page = guard, Feed(watched), Page()
        self.places, self.streams = threading.BoundedSemaphore(MOST), threading.BoundedSemaphore(MOST_STREAMS)
        self.closing = threading.Event()
        self._answering: set[threading.Thread] = set()
        self._waiting: dict[socket.socket, float] = {}  # connections that have not said what they want, and until when they may
        self.address_family, address = resolved(guard.host)
        try:
            super().__init__((address, port), Handler)
        except OSError as error:
            hint = "is another `fedtier watch` there? --port 0 takes a free one"
            raise FedtierError("--port", port, f"cannot be served: {error.strerror}", hint) from None

    def server_bind(self) -> None:
        """As HTTPServer's, which also asks DNS for the name of this machine."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.guard.host, self.server_address[1]

    @property
    def address(self) -> str:
        """What to open in a browser; the token goes with it, once."""
        host = f"[{self.guard.host}]" if ":" in self.guard.host else self.guard.host
        return f"http://{host}:{self.server_port}/" + (f"?token={self.guard.token}" if self.guard.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.places.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0.2)
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        self._waiting[request] = time.monotonic() + SECONDS
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._answering.add(threading.current_thread())
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._waiting.pop(request, None)
            self.places.release()
            self._answering.discard(threading.current_thread())

    def heard(self, request: Any) -> None:
        """The connection has said what it wants."""
        self._waiting.pop(request, None)

    def service_actions(self) -> None:
        """Twice a second: cuts connections whose time to ask is over, however slowly they go on asking."""
        for request, ends in list(self._waiting.items()):
            if time.monotonic() > ends and self._waiting.pop(request, None):
                _cut(request)

    def server_close(self) -> None:
        """Also ends the streams, and waits for whoever is reading files: a thread that outlives the interpreter aborts it."""
        super().server_close()
        self.closing.set()
        for request in list(self._waiting):
            _cut(request)
        ends = time.monotonic() + SECONDS
        for thread in list(self._answering):
            thread.join(max(0.0, ends - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off is none of our business."""


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One connection: one question, one answer."""

    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    server: WatchServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def parse_request(self) -> bool:
        """Refuses what is no question to this server before anything is looked up."""
        if not super().parse_request():
            return False
        self.server.heard(self.request)
        self.close_connection = True
        if self.command not in ("GET", "HEAD"):
            return self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this server only shows: GET and HEAD", {"Allow": "GET, HEAD"})
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.guard.knows(hosts[0]):
            words = "the name in your address is not this server's: use localhost, or the address that it was started with"
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, words)
        return True

    def do_GET(self) -> None:
        """The four addresses."""
        parts = urlsplit(self.path)
        routes: dict[str, Callable[[], None]] = {
            "/": self._page, "/state.json": self._state, "/metrics": self._metrics, "/events": self._events,
        }  # fmt: skip
        if not self._admitted(parts.path, parts.query):
            return
        answer = routes.get(parts.path)
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing here; there are {', '.join(routes)}")
            return
        answer()

    do_HEAD = do_GET

    def _admitted(self, path: str, query: str) -> bool:
        """Asks for the token, where there is one. In the address of the page it is taken into a cookie."""
        guard = self.server.guard
        given = parse_qs(query).get("token", [None])[0]
        if path == "/" and guard.token and given is not None and guard.admits(given):
            cookie = f"{cookie_name(self.server.server_port)}={guard.token}; HttpOnly; SameSite=Lax; Path=/"
            self._send(HTTPStatus.SEE_OTHER, "text/plain; charset=utf-8", b"", {"Location": "/", "Set-Cookie": cookie})
            return False
        if guard.admits(token_in(dict(self.headers.items()), self.server.server_port)):
            return True
        words = "this server asks for a token: open the address that `fedtier watch` printed, or send Authorization: Bearer"
        return self._refuse(HTTPStatus.UNAUTHORIZED, words, {"WWW-Authenticate": "Bearer"})

    def _page(self) -> None:
        page = self.server.page
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.data, {"Content-Security-Policy": page.policy})

    def _state(self) -> None:
        self._send(HTTPStatus.OK, "application/json", self.server.feed.now()[1].encode())

    def _metrics(self) -> None:
        self._send(HTTPStatus.OK, CONTENT_TYPE, exposition(self.server.feed.now()[0]).encode())

    def _events(self) -> None:
        """The state now, and again whenever it is another, until the reader leaves."""
        if not self.server.streams.acquire(blocking=False):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open already", {"Retry-After": "10"})
            return
        try:
            self._send(HTTPStatus.OK, "text/event-stream; charset=utf-8", None)
            if self.command == "GET":
                self._stream()
        finally:
            self.server.streams.release()

    def _stream(self) -> None:
        sent, spoke = "", 0.0
        while not self.server.closing.is_set():
            text, now = self.server.feed.now()[1], time.monotonic()
            if text != sent:
                self.wfile.write(f"data: {text}\n\n".encode())
                sent, spoke = text, now
            elif now - spoke > SIGN_OF_LIFE:
                self.wfile.write(b": nothing new\n\n")
                spoke = now
            self.server.closing.wait(BEAT)

    def _refuse(self, status: HTTPStatus, words: str, more: dict[str, str] | None = None) -> bool:
        self._send(status, "text/plain; charset=utf-8", f"{words}\n".encode(), more)
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself, without its page."""
        self.close_connection = True
        status = HTTPStatus(code)
        self.command = getattr(self, "command", None) or "GET"
        self._refuse(status, status.phrase)

    def _send(self, status: HTTPStatus, kind: str, data: bytes | None, more: dict[str, str] | None = None) -> None:
        """The head, and `data` where there is some; without it a stream follows."""
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Security-Policy": NOTHING_MORE, "Connection": "close"} | SAFE | (more or {})
        if data is not None:
            headers["Content-Length"] = str(len(data))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if data and self.command != "HEAD":
            self.wfile.write(data)

    def version_string(self) -> str:
        return "fedtier"

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the terminal is for the address."""


def watch(
    folder: Path, host: str, port: int, token: str | None, stalled_after: float | None, say: Callable[[str], None]
) -> None:
    """Serves the folder's page until SIGINT or SIGTERM, which end it as KeyboardInterrupt."""
    server = WatchServer(Watched(folder, stalled_after), guard_for(host, token), port)
    with server, _ended_by_signals():
        say(server.address)
        server.serve_forever()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the loop as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
