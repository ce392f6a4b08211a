# pyright: reportMissingImports=false
"""A site that comes back gets the running job, while the others play on.

FLARE starts a job at the sites that are there when it begins, and at no other. Here FLARE's server looks at each heartbeat
of a site, which names the jobs it runs: one that lacks the running job gets it. A site that keeps coming and going gets it
later and later (`Turns`), so that it costs the server little. The server's job then asks for the names anew (`controller`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from nvflare.apis.fl_constant import RunProcessKey
from nvflare.apis.job_scheduler_spec import DispatchInfo
from nvflare.private.defs import CellMessageHeaderKeys
from nvflare.private.fed.server.fed_server import FederatedServer

FIRST, LONGEST = 5.0, 300.0  # seconds between two attempts with one site: at first, and at most
STEADY = 600.0  # seconds without an attempt after which a site starts from the beginning

log = logging.getLogger(__name__)


class Turns:
    """When each site may be given the job again: at once, then after 5, 10, 20, ... 300 seconds."""

    def __init__(self) -> None:
        self.tries: dict[str, tuple[int, float]] = {}  # how many, and when the last one was
        self.lock = threading.Lock()

    def take(self, site: str, now: float) -> bool:
        """Whether it is the site's turn; if so, its next one comes later."""
        with self.lock:
            count, last = self.tries.get(site, (0, -STEADY))
            count = 0 if now - last >= STEADY else count
            if count and now - last < min(LONGEST, FIRST * 2 ** (count - 1)):
                return False
            self.tries[site] = count + 1, now
            return True


class Rejoin:
    """Looks at the heartbeats of one server."""

    def __init__(self) -> None:
        self.turns = Turns()

    def look(self, server: Any, request: Any) -> None:
        """Gives the running job to the site that sent `request`, if it lacks it and it is its turn."""
        runner, site = server.engine.job_runner, request.get_header(CellMessageHeaderKeys.CLIENT_NAME)
        has = set(request.get_header(CellMessageHeaderKeys.JOB_IDS) or ())
        with runner.lock:
            jobs = dict(runner.running_jobs)
        for job_id, job in jobs.items():
            if job_id in server.engine.run_processes and job_id not in has and self.turns.take(site, time.monotonic()):
                threading.Thread(target=self._give, args=(server.engine, job, site), daemon=True).start()

    def _give(self, engine: Any, job: Any, site: str) -> None:
        try:
            give(engine, job, site)
            log.info(f"{site}: came without job {job.job_id} and was given it")
        except Exception as error:  # FLARE raises many kinds; the next heartbeat is another chance
            log.warning(f"{site}: could not be given job {job.job_id}: {type(error).__name__}: {error}")


def give(engine: Any, job: Any, site: str) -> None:
    """What FLARE does with every site when a job begins, for one."""
    client = engine.get_client_from_name(site)
    if client is None:
        raise LookupError("is gone again")
    admin, (app,) = engine.server.admin_server, job.get_deployment()
    with engine.new_context() as context:
        message = engine.job_runner._make_deploy_message(job, job.get_application(app, context), app, context)
        admin.send_requests_and_get_reply_dict({client.token: message}, timeout_secs=admin.timeout)
        process = engine.run_processes[job.job_id]
        others = {token: other for token, other in process[RunProcessKey.PARTICIPANTS].items() if other.name != site}
        process[RunProcessKey.PARTICIPANTS] = others | {client.token: client}  # its token of an earlier life is void
        engine.start_client_job(job, {site: DispatchInfo(app, {}, None)}, context)


def install() -> None:
    """In this process's FLARE."""
    rejoin, plain = Rejoin(), FederatedServer._sync_client_jobs

    def sync(self: Any, request: Any, client_token: str) -> Any:
        aborts = plain(self, request, client_token)
        rejoin.look(self, request)
        return aborts

    FederatedServer._sync_client_jobs = sync
