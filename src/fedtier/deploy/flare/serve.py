"""`fedtier serve`: FLARE's server kept alive, and a job in it until the run is finished.

FLARE recovers nothing: a crash of its server or of its job process ends the job. So the job is disposable here. It is submitted
again when it is gone and when it is RUNNING but no process is; the run itself goes on from the driver's checkpoint. A site that
comes back gets the running job by itself (`rejoin`).

Every question to FLARE leaves a cycle of objects that holds a megabyte. Python, which counts objects and not bytes, would look
for such cycles once in ten minutes: `serve` had grown to 1.2 GB by then. So it collects them at every beat.
"""

from __future__ import annotations

import gc
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...errors import FedtierError
from .admin import ENDED, Admin, NoAnswer, hushed
from .job import write_job
from .supervise import Party, Say, Space, alone, stop_signals
from .validity import Validity
from .workspace import Kit

BEAT = 1.0  # seconds between two looks
LOOKS = 2  # a fault must be seen so often in a row: jobs start and end in steps
GATHER = 10.0  # seconds that further sites have to connect, once enough are there
LEAVING = 10.0  # seconds that the job has to end when the server is stopped
ABORTING = 30.0  # seconds that an aborted job has to end, before the server itself is restarted


class Run(NamedTuple):
    """What `serve` must know of the run that its job plays."""

    name: str
    folder: Path
    sites: tuple[str, ...]
    start: int  # sites without which it does not begin
    rounds: int
    environment: Mapping[str, str]  # PLAY and what the function named there reads
    finished: Callable[[], bool]
    watch: Callable[[], None]  # called at every beat; raises what must end the run
    note: Callable[[str], None] = lambda line: None  # a line for the run's log, which `watch` tells


def serve(kit: Kit, run: Run, say: Say) -> bool:
    """Until the run is finished (True), or SIGINT or SIGTERM come (False)."""
    space = run.folder / "flare"
    with alone(space), stop_signals() as stopped, hushed():
        party = Party(kit, space / "server", run.environment, say)
        admin = Admin(kit, space / "admin")
        keeper = _Keeper(run, admin, party, say)
        disk = Space(run.folder, say)
        validity = Validity(kit, space / "server", run.sites, run.note)
        party.end()  # what a killed supervisor left behind
        _port_is_free(kit.port)
        say(f"server {kit.server}:{kit.port}: waiting for {run.start} of {len(run.sites)} sites")
        gc.freeze()  # what is there stays: the collections below look at the rest
        try:
            while not stopped() and not run.finished():
                if party.process is None or party.process.poll() is not None:
                    shutil.rmtree(space / "server" / "jobs", ignore_errors=True)  # a crash leaves jobs RUNNING for ever
                    keeper.forget()
                if party.renewed():
                    say("renewed certificate: FLARE's server is started anew with it, the run goes on where it is")
                    party.end()
                    shutil.rmtree(space / "server" / "jobs", ignore_errors=True)
                    keeper.forget()
                    admin.renew()
                    party.restart()
                party.keep()
                keeper.look()
                validity.look()
                disk.look()
                run.watch()
                gc.collect()
                time.sleep(BEAT)
            run.watch()
        finally:
            gc.unfreeze()
            keeper.leave()
            admin.close()
            party.end()
            for keys in (space / "server" / "startup", space / "admin" / "startup"):
                shutil.rmtree(keys, ignore_errors=True)  # results are passed on; private keys must not be
    return run.finished()


def _port_is_free(port: int) -> None:
    """Another server there would get our job and play its own run."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            hint = "is another `fedtier serve` running with these kits?"
            raise FedtierError("port", port, f"cannot be served: {error.strerror}", hint) from None


class _Keeper:
    """Keeps one job of ours in the server."""

    def __init__(self, run: Run, admin: Admin, party: Party, say: Say) -> None:
        self.run, self.admin, self.party, self.say = run, admin, party, say
        self.folder = write_job(run.folder / "flare" / "job", run.name, run.sites, run.rounds)
        self.job: str | None = None
        self.seen = 0  # looks in a row that found a fault
        self.since: float | None = None  # when enough sites were connected
        self.ending: float | None = None  # when the job was aborted

    def forget(self) -> None:
        self.admin.close()
        self.job, self.seen, self.since, self.ending = None, 0, None, None

    def leave(self) -> None:
        """Lets the job end at the sites as well, so that they are free for the next one."""
        if self.job is None:
            return
        ends = time.monotonic() + LEAVING
        try:
            if not self.run.finished():
                self.admin.abort(self.job)
            while time.monotonic() < ends and not self.admin.status(self.job).startswith(ENDED):
                time.sleep(0.3)
        except NoAnswer:
            return

    def look(self) -> None:
        try:
            if self.job is None:
                self._submit()
            else:
                self._check(self.job)
        except NoAnswer:
            return  # the server is starting, or gone: `serve` sees to that

    def _submit(self) -> None:
        here = len([site for site in self.admin.sites() if site in self.run.sites])
        if here < self.run.start:
            self.since = None
            return
        self.since = self.since or time.monotonic()
        if here == len(self.run.sites) or time.monotonic() - self.since > GATHER:
            self.job = self.admin.submit(self.folder)
            self.seen, self.ending = 0, None
            self.say(f"{here} of {len(self.run.sites)} sites connected; job {self.job} submitted")

    def _check(self, job: str) -> None:
        status = self.admin.status(job)
        if status.startswith(ENDED):
            if not self.run.finished():
                self.say(f"job {job} ended early ({status}); another follows")
            self.job, self.since = None, None
            return
        if self.ending is not None:
            if time.monotonic() - self.ending > ABORTING:
                self.say("the job does not end; restarting the server")
                self.party.end()
            return
        fault = self._fault(job, status)
        self.seen = self.seen + 1 if fault else 0
        if self.seen >= LOOKS:
            self.say(f"{fault}; submitting again")
            self.ending = time.monotonic()
            self.admin.abort(job)

    def _fault(self, job: str, status: str) -> str:
        if status != "RUNNING":
            return ""
        return "" if job in self.admin.jobs() else f"job {job} is RUNNING, but no process runs it"
