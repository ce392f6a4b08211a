"""A watch server in this process, on a free port, and questions to it over real sockets."""

import http.client
import json
import shutil
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

from fedtier.reports.live.guard import guard_for
from fedtier.reports.live.server import WatchServer
from fedtier.reports.live.watched import Watched


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1", token: str | None = None):
    """The server of `fedtier watch FOLDER --port 0`."""
    with WatchServer(Watched(folder), guard_for(host, token), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def ask(server: WatchServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """The answer, its text in `.text`."""
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    link.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    answer.text = answer.read().decode()
    link.close()
    return answer


def connect(server: WatchServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


@contextmanager
def events(server: WatchServer, **headers: str):
    """The states of the stream, one after another."""
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    link.request("GET", "/events", headers=headers)
    answer = link.getresponse()
    assert answer.status == 200 and answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"

    def states():
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    try:
        yield states()
    finally:
        link.sock and link.sock.close()
        answer.close()


def half_of(run: Path, target: Path) -> list[str]:
    """A copy of a finished run as it was half way; the lines of its metrics that are still to come."""
    shutil.copytree(run, target)
    (target / "clients.json").unlink()
    (target / "checkpoint.safetensors").unlink()
    lines = (target / "metrics.jsonl").read_text().splitlines(keepends=True)
    (target / "metrics.jsonl").write_text("".join(lines[: len(lines) // 2]))
    return lines[len(lines) // 2 :]
