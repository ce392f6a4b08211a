"""A SuperLink and SuperNodes on this machine, started with the commands that the documentation gives."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tomli_w

from fedtier.deploy.export import export_rows
from fedtier.experiments import config as configuration

BIN = Path(sys.executable).parent
PATIENCE = 600.0  # seconds: of a machine that does other things as well
OFFLINE = {"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Federation:
    """Data for a server and its sites in `root`, drawn as a simulation of `tables` draws them, and Flower's processes."""

    def __init__(self, root: Path, tables: dict[str, Any]) -> None:
        self.root, self.link = root, f"127.0.0.1:{free_port()}"
        self.clients: int = tables["data"]["clients"]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        export_rows(configuration.validate(tables), root / "data")
        home = root / "home"
        home.mkdir()
        rehearsal = {"address": self.link, "insecure": True}
        (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": "rehearsal", "rehearsal": rehearsal}}))
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # Flower starts its own commands by name
        self.environment = os.environ | OFFLINE | {"FLWR_HOME": str(home), "PATH": path}

    def start(self, who: str, *words: str) -> None:
        with open(self.root / f"{who}.log", "ab") as log:
            self.processes[who] = subprocess.Popen(
                [str(BIN / words[0]), *words[1:]], cwd=self.root, env=self.environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def serve(self) -> None:
        self.start("link", "flower-superlink", "--insecure", "--port", self.link.partition(":")[2])
        self.until(self.listening, "the SuperLink")

    def listening(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(self.link.partition(":")[2])), 1):
            return True
        return False

    def join(self, k: int) -> None:
        place = {"site": f"data/site-{k}.toml", "state": f"state/{k}", "keys": f"keys/site-{k}.json"}
        mine = f"partition-id={k} " + " ".join(f'{key}="{self.root}/{path}"' for key, path in place.items())
        node = ("flower-supernode", "--insecure", "--superlink", self.link, "--port", str(free_port()), "--node-config", mine)
        self.start(f"node-{k}", *node)

    def call(self, *words: str) -> str:
        line = [str(BIN / words[0]), *words[1:]]
        done = subprocess.run(
            line, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def configure(self, name: str, method: dict[str, Any]) -> None:
        """app-NAME: the exported run with this method."""
        tables = configuration.read_toml(self.root / "data/run.toml")
        tables["method"] = method
        tables["wire"]["deadline"] = PATIENCE  # a loaded machine is slow, not silent
        (self.root / f"data/run-{name}.toml").write_text(tomli_w.dumps(tables))
        self.call("fedtier", "flower", f"app-{name}", "--run", f"data/run-{name}.toml", "--out", f"runs/{name}")

    def begin(self, name: str) -> str:
        """Starts app-NAME; Flower's number of the run."""
        return json.loads(self.call("flwr", "run", f"app-{name}", "--format", "json"))["run-id"]

    def finish(self, name: str) -> Path:
        """Waits for the end of app-NAME; its folder."""
        folder = self.root / "runs" / name
        self.until((folder / "clients.json").exists, f"the end of {name}")
        return folder

    def until(self, holds: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < ends, f"waited for {what}\n" + "\n".join(self.said(who)[-3000:] for who in self.processes)
            time.sleep(0.2)

    def said(self, who: str) -> str:
        return (self.root / f"{who}.log").read_text()

    def kill(self, who: str) -> None:
        """The process and all that it started, at once."""
        process = self.processes.pop(who)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def federation(root: Path, tables: dict[str, Any]) -> Iterator[Federation]:
    made = Federation(root, tables)
    try:
        made.serve()
        for k in range(made.clients):
            made.join(k)
        yield made
    finally:
        for who in list(made.processes):
            made.kill(who)
