# pyright: reportMissingImports=false
"""The process of a job, started before there is a job.

    python -m fedtier.deploy.flare.ahead MODULE        becomes FLARE's MODULE when its words come on standard input

FLARE starts a process for each job, at the server and at every site; it loads its modules then, and a site's solver loads
JAX: seconds of work, which all parties begin at the same moment and for which the first round waits. Here FLARE's server and
client keep one such process with everything loaded, and at a site the solver beside it. When a job comes, it gets the words
and the environment that FLARE would have started it with; when that job has ended, the next one is prepared. A process that
is not there any more costs nothing but the time: the job then starts as FLARE starts it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from nvflare.app_common.job_launcher import process_launcher
from nvflare.utils.process_utils import ProcessAdapter

from . import drivers
from .supervise import is_alive

AT_SITE = "nvflare.private.fed.app.client.worker_process"  # FLARE's programs of a job
AT_SERVER = "nvflare.private.fed.app.server.runner_process"
PARTS = {AT_SITE: f"{__package__}.executor", AT_SERVER: f"{__package__}.controller"}  # and our part in them
BEAT = 1.0  # seconds between two looks at a job that runs
REST = 3.0  # seconds after a job's end: a server that has finished its run goes then, and needs no other


class Ahead:
    """One process of `module`, ready; `spawn` stands in the place of FLARE's function of that name."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.plain = process_launcher.spawn_process
        self._ready: subprocess.Popen[bytes] | None = None
        self._jobs = 0  # that run
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Starts it, where none is ready and no job runs: it would wait in vain, with a solver beside the job's own."""
        with self._lock:
            if self._jobs == 0 and (self._ready is None or self._ready.poll() is not None):
                line = [sys.executable, "-m", __name__, self.module]
                self._ready = subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True)

    def spawn(self, words: list[str], environment: dict[str, str]) -> ProcessAdapter:
        self._count(1)
        try:
            process = self._told(words, environment)
            started = self.plain(words, environment) if process is None else ProcessAdapter(process=process)
        except BaseException:
            self._count(-1)
            raise
        threading.Thread(target=self._follow, args=(started.pid,), daemon=True).start()
        return started

    def _count(self, jobs: int) -> None:
        with self._lock:
            self._jobs += jobs

    def _told(self, words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes] | None:
        """The process that was ready and has got its words; None where there is none."""
        if words[1:3] != ["-m", self.module]:
            return None
        with self._lock:
            process, self._ready = self._ready, None
        if process is None:
            return None
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                pipe.write(json.dumps([words[3:], environment]).encode() + b"\n")
        except OSError:  # it has ended
            process.wait()
            return None
        return process

    def _follow(self, pid: int) -> None:
        """Prepares the next one when this one has ended; FLARE is the one that waits for its exit status."""
        import psutil

        try:
            process = psutil.Process(pid)
            while is_alive(process):
                time.sleep(BEAT)
        except psutil.Error:
            pass
        self._count(-1)
        time.sleep(REST)
        self.begin()


def install(module: str) -> None:
    """In this process's FLARE, before it starts anything."""
    ahead = Ahead(module)
    process_launcher.spawn_process = ahead.spawn
    ahead.begin()


def become(module: str) -> Any:
    """What the module does when it is started by its name, with all loaded before its words are known; its exit status."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.utils.fed_utils import nvflare_fobs_initialize

    program: Any = importlib.import_module(module)
    nvflare_fobs_initialize()
    drivers.install()
    importlib.import_module(PARTS[module]).prepare()
    line = sys.stdin.buffer.readline()
    if not line:  # FLARE has ended, and there will be no job
        return 0
    words, environment = json.loads(line)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    args = program.parse_arguments()
    return MainProcessMonitor.run(main_func=program.main, run_dir=os.path.join(args.workspace, args.job_id), args=args)


if __name__ == "__main__":
    raise SystemExit(become(sys.argv[1]))
