# pyright: reportMissingImports=false
"""What FLARE's server says and does for an administrator: who is connected, which job runs where, submit, abort."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import thread as pools
from pathlib import Path
from typing import Any

from ...errors import FedtierError
from .workspace import Kit, open_admin

ENDED = "FINISHED"  # how the statuses of a job that is over begin
NO_JOBS = "no_jobs"
NOT_TAKEN = "client_registration"  # in FLARE's words where the server does not let one in
PATIENCE = 20.0  # seconds that the server has for an answer; it waits 10 itself for a site that is away
CLOSING = 3.0  # seconds to say goodbye


class NoAnswer(Exception):
    """The server is not there, or did not answer; ask again later."""


class Admin:
    """One session, made anew after every failure: FLARE's does not survive its server."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        self.kit, self.folder = kit, open_admin(kit, folder)
        self.session: Any = None
        self.before = set(pools._threads_queues)  # pyright: ignore[reportAttributeAccessIssue]

    def renew(self) -> None:
        """Takes the kit's present certificate for the next session."""
        self.close()
        open_admin(self.kit, self.folder)

    def sites(self) -> dict[str, float]:
        """The connected sites, and when each was last heard (seconds since the epoch)."""
        return {client.name: client.last_connect_time for client in self._call("get_system_info").client_info}

    def jobs(self) -> list[str]:
        """The jobs that really run at the server."""
        return [job.job_id for job in self._call("get_system_info").job_info]

    def status(self, job: str) -> str:
        return self._call("get_job_meta", job)["status"]

    def has_job(self, job: str) -> dict[str, bool]:
        """For each site that answers, whether it runs the job."""
        answers: dict[str, bool] = {}
        for row in self._call("get_client_job_status") or []:
            if "job_id" in row or row.get("status") == NO_JOBS:  # else it did not answer, or with an error
                site = row["client_name"]
                answers[site] = answers.get(site, False) or row.get("job_id") == job
        return answers

    def submit(self, job: Path) -> str:
        return self._call("submit_job", str(job))

    def abort(self, job: str) -> None:
        self._call("abort_job", job)

    def progress(self, job: str, topic: str) -> dict[str, Any]:
        """What the running job says of itself; nothing while it is starting or ending."""
        try:
            if self.session is None:
                self.session = self._open()
            return _within(PATIENCE, self.session.do_app_command, job, topic, {}) or {}
        except Exception:  # FLARE raises many kinds; a lost session shows at the next call of another kind
            return {}

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            with contextlib.suppress(Exception):
                _within(CLOSING, session.close)
        _let_go(self.before)

    def _call(self, name: str, *args: Any) -> Any:
        try:
            if self.session is None:
                self.session = self._open()
            return _within(PATIENCE, getattr(self.session, name), *args)
        except FedtierError:
            raise
        except Exception as error:  # FLARE raises many kinds; whatever it is, the session is not to be trusted
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    def _open(self) -> Any:
        with contextlib.redirect_stderr(io.StringIO()):  # FLARE prints the traceback of a refusal; the exception says it, too
            return _within(PATIENCE, self._connect)

    def _connect(self) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        from .listener import guard

        guard()
        return new_secure_session(self.kit.user, str(self.folder), timeout=5.0, auto_login_max_tries=1)


def _within(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """The function's value, from a thread that is left alone when it takes longer: FLARE waits for ever for a server that is
    there and does not move. It prints, too, while it tries; stdout is for data."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(function(*args))
        except BaseException as error:  # FLARE raises many kinds
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return outcome.result(seconds)
        except FutureTimeout:
            raise NoAnswer(f"nothing for {seconds:.0f} s") from None


def _let_go(before: set[threading.Thread]) -> None:
    """Python waits at its end for the threads of every pool; those of a FLARE session that was given up dial for ever. What was
    there `before` it stays."""
    waited: Any = pools._threads_queues  # pyright: ignore[reportAttributeAccessIssue]
    for worker in set(waited) - before:
        waited.pop(worker, None)


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """FLARE's own loggers say nothing meanwhile, its threads' included: what failed is told by exceptions."""
    logger = logging.getLogger("nvflare")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
