# pyright: reportMissingModuleSource=false
"""A FLARE process and all that descend from it: started, watched, and ended together.

FLARE puts each job into a session of its own, where no process group reaches it; what was started here is known by a
mark in its environment, so that even what a killed supervisor left behind is found and ended before anything starts.
"""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import FedtierError
from ...storage.files import write_whole
from .names import KEYS
from .workspace import SIGNING, Kit, open_workspace, read_kit

MARK = "FEDTIER_WORKSPACE"
GRACE = 3.0  # seconds between asking to end and ending
CALM = 60.0  # a process that lived so long did not fail to start
MOST_LOG = 8_000_000  # bytes of a log, after which what is in it is set aside
SLOWEST = 30.0  # seconds between two attempts, at most

Say = Callable[[str], None]


def tell(line: str) -> None:
    """A line of a long-lived command, with the time of day."""
    with suppress(OSError):  # a supervisor outlives a full disk, also where its own words go there
        print(f"{datetime.datetime.now():%H:%M:%S} {line}", file=sys.stderr, flush=True)


class Command(NamedTuple):
    module: str
    config: str
    words: tuple[str, ...]


def command_of(kit: Kit) -> Command:
    if kit.kind == "server":
        return Command(f"{__package__}.listener", "fed_server.json", ())
    return Command(f"{__package__}.client", "fed_client.json", (f"uid={kit.party}",))


class Party:
    """FLARE's server or client, in `folder`, with `environment` for its jobs."""

    def __init__(self, kit: Kit, folder: Path, environment: Mapping[str, str], say: Say) -> None:
        self.kit, self.folder, self.say = kit, folder.resolve(), say
        self.environment = dict(os.environ) | dict(environment) | {MARK: str(self.folder)}
        if kit.kind == "server":
            self.environment[KEYS] = str(kit.folder / SIGNING)
        self.process: subprocess.Popen[bytes] | None = None
        self.started, self.deaths = 0.0, 0  # deaths: launches in a row that did not last
        self.died: float | None = None  # when the death of the process was seen

    def keep(self) -> bool:
        """Starts the process if it is not running, later and later if it keeps dying; whether it was started now."""
        for log in (self.log, self.folder / "audit.log"):
            trim(log)
        if self.process is not None and self.process.poll() is None:
            return False
        now = time.monotonic()
        if self.process is not None:
            if self.died is None:
                self.died, self.deaths = now, 0 if now - self.started > CALM else self.deaths + 1
            if now - self.died < min(SLOWEST, 2.0**self.deaths - 1):
                return False
            self.say(f"FLARE ended with status {self.process.returncode}; starting it again (see {self.log})")
        self._start()
        return True

    @property
    def log(self) -> Path:
        return self.folder / "console.log"

    def connected(self) -> bool:
        """Whether the process holds a connection to the server's port."""
        import psutil

        if self.process is None or self.process.poll() is not None:
            return False
        with suppress(_gone()):
            links = psutil.Process(self.process.pid).net_connections(kind="tcp")
            return any(link.status == psutil.CONN_ESTABLISHED and link.raddr.port == self.kit.port for link in links)
        return False

    def renewed(self) -> bool:
        """Whether the kit holds another certificate than the one that FLARE was started with, and is whole."""
        name = "server.crt" if self.kit.kind == "server" else "client.crt"
        try:
            if (self.kit.folder / "startup" / name).read_bytes() == (self.folder / "startup" / name).read_bytes():
                return False
            return read_kit(self.kit.folder, self.kit.kind).party == self.kit.party
        except (OSError, FedtierError):  # one that is being replaced
            return False

    def take_over(self) -> None:
        """Puts a renewed key and certificate of a site where the running FLARE finds them at its next connection; the one that
        it has stays open, so that nothing is lost."""
        for name in ("client.key", "client.crt"):
            write_whole(self.folder / "startup" / name, (self.kit.folder / "startup" / name).read_bytes())

    def restart(self) -> None:
        """Starts the process anew, with the kit as it is now."""
        self._start()

    def _start(self) -> None:
        self.end()
        workspace = open_workspace(self.kit, self.folder)
        module, config, words = command_of(self.kit)
        rest = ["secure_train=true", "org=fedtier", "config_folder=config", *words]
        line = [sys.executable, "-u", "-m", module, "-m", str(workspace), "-s", config, "--set", *rest]
        with open(self.log, "ab") as log:  # what the last one said on its way out is what one wants to read
            log.write(f"--- started {datetime.datetime.now():%Y-%m-%d %H:%M:%S}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                line, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.started, self.died = time.monotonic(), None

    def end(self) -> None:
        """Ends the process and everything that carries its mark."""
        ours = list(self.descendants())
        for process in ours:
            with suppress(_gone()):
                process.terminate()
        ends = time.monotonic() + GRACE
        while time.monotonic() < ends and any(map(is_alive, ours)):
            time.sleep(0.05)
            if self.process is not None:
                self.process.poll()
        for process in self.descendants():
            with suppress(_gone()):
                process.kill()
        if self.process is not None:
            self.process.wait()

    def descendants(self) -> Iterator[Any]:
        import psutil

        for process in psutil.process_iter():
            with suppress(_gone()):
                if process.pid != os.getpid() and process.environ().get(MARK) == str(self.folder):
                    yield process


class Space:
    """Says when nothing can be written into a folder any more, and when that is over: whoever meets a full disk in it can leave
    no word there."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.probe, self.say, self.trouble = folder / "probe", say, ""

    def look(self) -> None:
        trouble = ""
        try:
            self.probe.write_bytes(bytes(4096))
            self.probe.unlink()
        except OSError as error:
            trouble = error.strerror or str(error)
        if trouble != self.trouble:
            self.trouble = trouble
            self.say(f"{self.probe.parent}: {f'cannot be written: {trouble}' if trouble else 'can be written again'}")


def trim(log: Path) -> None:
    """Keeps a log that some process has open for appending small: what is in it goes to NAME.1, in the place of the last such
    part, and the process goes on at the file's start. FLARE's audit.log has a line for every question of `serve`."""
    if log.exists() and log.stat().st_size > MOST_LOG:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def is_alive(process: Any) -> bool:
    """False also for a process that ends while it is looked at."""
    with suppress(_gone()):
        return process.is_running() and process.status() != "zombie"
    return False


def _gone() -> type[Exception]:
    import psutil

    return psutil.Error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One supervisor per folder: the second is refused; a dead one holds nothing."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "supervisor.lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            rule = f"is in use by process {file.read().strip() or '?'}"
            raise FedtierError(str(folder), None, rule, "stop it first, or give another folder") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM ask to stop; the loop looks, ends its children and returns."""
    caught: list[int] = []
    before = {number: signal.signal(number, lambda n, f: caught.append(n)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
