"""A federation of real processes on this machine: the commands that people type, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
import safetensors.numpy
import tomli_w

from fedtier.deploy.export import export_rows
from fedtier.deploy.flare.supervise import MARK
from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import open_site
from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.protocol import loopback

FEDTIER = [sys.executable, "-m", "fedtier"]
PATIENCE = 600.0  # seconds: of a machine that does other things as well


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Federation:
    """Kits and data for a server and `clients` sites in `root`, drawn as a simulation of `tables` draws them."""

    def __init__(self, root: Path, tables: dict[str, Any]) -> None:
        self.root, self.tables, self.port = root, tables, free_port()
        self.sites = [f"site-{k}" for k in range(tables["data"]["clients"])]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        export_rows(configuration.validate(tables), root / "data")
        sites = {"name": "trial", "server": "localhost", "port": self.port, "sites": self.sites}
        (root / "sites.toml").write_text(tomli_w.dumps(sites))
        self.call("provision", "sites.toml")

    def call(self, *words: str) -> str:
        done = subprocess.run([*FEDTIER, *words], cwd=self.root, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def configure(self, name: str, changes: dict[str, dict[str, Any]], **wire: Any) -> Path:
        """run-NAME.toml: the exported run with other values in its tables."""
        tables = configuration.read_toml(self.root / "data/run.toml")
        for table, values in changes.items():
            fresh = {} if table == "method" else tables[table]
            tables[table] = fresh | values
        tables["wire"] |= wire
        path = self.root / "data" / f"run-{name}.toml"
        path.write_text(tomli_w.dumps(tables))
        return path

    def start(self, who: str, *words: str, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        with open(self.root / f"{who}.log", "ab") as log:
            told = os.environ | environment
            self.processes[who] = subprocess.Popen([*FEDTIER, *words], cwd=self.root, stdout=log, stderr=log, env=told)

    def join(self, site: str, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        place = ("--site", f"data/{site}.toml", "--state", f"state/{site}")
        self.start(site, "join", f"kits/{site}", *place, environment=environment)

    def serve(self, run: Path, out: str) -> None:
        self.start("server", "serve", "kits/server", "--run", str(run), "--out", out, "--json")

    def play(self, run: Path, out: str) -> Path:
        """Serves a run to its end; its folder."""
        self.serve(run, out)
        try:
            assert self.processes["server"].wait(PATIENCE) == 0, self.said("server")
        except subprocess.TimeoutExpired:
            self.processes["server"].terminate()  # or the next run finds its port in use
            raise AssertionError(self.said("server")) from None
        return self.root / out

    def rehearse(self, run: Path, out: str) -> Path:
        """The same run in this process, without a network; its folder. What the sites remember is in state/SITE beside it."""
        folder = self.root / out
        sites = {name: open_site(self.root / "data" / f"{name}.toml", folder / "state" / name) for name in self.sites}
        try:
            ask = loopback({name: site.answer for name, site in sites.items()})
            return serve_rounds(run, folder / "run", ask, progress=Progress()).folder
        finally:
            for site in sites.values():
                site.close()

    def said(self, who: str) -> str:
        return (self.root / f"{who}.log").read_text()

    def marked(self, place: str, word: str = "") -> list[psutil.Process]:
        """Every FLARE process of a party, and what descends from it, whose command has `word` in one of its parts; `place` is
        state/SITE or the run's folder. One that ends while it is looked at is not among them."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                own = process.environ().get(MARK, "").startswith(f"{self.root / place}/")
                if own and (not word or any(word in part for part in process.cmdline())):
                    found.append(process)
        return found

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(30)
        assert not self.marked("."), "processes outlived their supervisors"


@contextmanager
def federation(root: Path, tables: dict[str, Any]) -> Iterator[Federation]:
    made = Federation(root, tables)
    try:
        yield made
    finally:
        made.close()


def until(holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        if found := holds():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {patience:.0f} s for {what}")


def rounds_done(folder: Path) -> int:
    """The round after which the server's checkpoint was written."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return int(json.loads(file.read(size))["__metadata__"]["round"])


def model(folder: Path) -> np.ndarray:
    arrays = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])
