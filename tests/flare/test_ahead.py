"""A job's process is started before its job, and gets what FLARE would have started it with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedtier.deploy.flare.names import HUNG, SOLVER

from .federation import federation, rounds_done, until

pytestmark = pytest.mark.flare

MODULE = "nvflare.private.fed.app.client.worker_process"
WORDS = [
    "--job_id", "--workspace", "--startup", "--client_name", "--sp_target", "--sp_scheme", "--parent_url", "--fed_client",
]  # fmt: skip
TOKENS = ["NVFLARE_JOB_AUTH_TOKEN", "NVFLARE_JOB_TOKEN_SIGNATURE", "NVFLARE_JOB_SSID"]
TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 2, "alpha": 0.5},
    "run": {"rounds": 200, "participation": 1.0, "tau": 1.0, "eval_every": 200},
    "method": {"name": "fedavg"},
}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """One whose solver is a process that waits for input, and which has no successor."""
    from fedtier.deploy.flare import ahead
    from fedtier.deploy.flare.ahead import Ahead

    monkeypatch.setattr(ahead, "REST", 1e6)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SOLVER, json.dumps([sys.executable, "-c", "import sys; sys.stdin.read()"]))
    monkeypatch.setenv(HUNG, "10")
    made = Ahead(MODULE)
    made.begin()
    yield made
    if made._ready is not None:
        with suppress(OSError):  # one of the tests has closed it
            made._ready.stdin.close()
        made._ready.wait(60)


def solver_of(pid: int) -> psutil.Process | None:
    return next(iter(psutil.Process(pid).children()), None)


@pytest.mark.parametrize("missing", ["", "--startup", "NVFLARE_JOB_SSID"])
def test_it_waits_with_its_solver_and_then_reads_the_words_and_the_environment_of_its_job(ahead: Any, missing: str) -> None:
    """FLARE's program ends with 2 where a word or a token is missing, and with another status where the workspace is empty."""
    pid = ahead._ready.pid
    solver = until(lambda: solver_of(pid), "the solver", 60)
    words = [word for name in WORDS if name != missing for word in (name, "none")]
    tokens = {name: "none" for name in TOKENS if name != missing}
    started = ahead.spawn([sys.executable, "-m", MODULE, *words], dict(os.environ) | tokens)
    assert started.pid == pid and (started.process.wait(60) == 2) == bool(missing)
    until(lambda: not solver.is_running() or solver.status() == psutil.STATUS_ZOMBIE, "the solver's end", 60)


@pytest.mark.parametrize("words", [[MODULE], ["some.other.module"]])
def test_a_job_whose_process_is_gone_or_another_one_starts_as_flare_starts_it(ahead: Any, words: list[str]) -> None:
    from nvflare.utils.process_utils import ProcessAdapter

    seen: list[Any] = []
    started = ProcessAdapter(pid=os.getpid())
    ahead.plain = lambda *given: seen.append(given) or started
    if words == [MODULE]:
        psutil.Process(ahead._ready.pid).kill()
        ahead._ready.wait(60)
    command = [sys.executable, "-m", *words, *WORDS]
    assert ahead.spawn(command, {"A": "1"}) is started and seen == [(command, {"A": "1"})]


def test_a_job_that_cannot_be_started_counts_as_none(ahead: Any) -> None:
    def fails(*given: object) -> None:
        raise OSError("no more processes")

    ahead.plain = fails
    with pytest.raises(OSError, match="no more"):
        ahead.spawn([sys.executable, "-m", "some.other.module"], {})
    assert ahead._jobs == 0


def test_while_a_job_runs_no_other_is_prepared(ahead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that follows another at once: when the first one's end is seen, the second runs already."""
    from nvflare.utils.process_utils import ProcessAdapter

    from fedtier.deploy.flare import ahead as module

    monkeypatch.setattr(module, "REST", 0.0)
    monkeypatch.setattr(module, "BEAT", 0.01)
    first = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    second = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    jobs = iter([first, second])
    ahead.plain = lambda *given: ProcessAdapter(process=next(jobs))
    ahead._ready.kill()  # so that both start as FLARE starts them
    ahead._ready.wait(60)
    for _ in range(2):
        ahead.spawn([sys.executable, "-m", MODULE], {})
    first.communicate(b"\n", timeout=60)
    until(lambda: ahead._jobs == 1, "the first one's end", 60)
    ahead.begin()
    assert ahead._ready is None
    second.communicate(b"\n", timeout=60)
    until(lambda: ahead._ready is not None, "the next one", 60)


def test_one_that_waits_ends_with_the_process_that_waits_for_it(ahead: Any) -> None:
    solver = until(lambda: solver_of(ahead._ready.pid), "the solver", 60)
    ahead._ready.stdin.close()
    assert ahead._ready.wait(60) == 0
    until(lambda: not solver.is_running() or solver.status() == psutil.STATUS_ZOMBIE, "the solver's end", 60)


def test_the_solver_of_a_site_that_waits_is_the_one_that_answers_and_after_the_run_another_waits(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)

        def solver(site: str) -> int | None:
            return next((process.pid for process in made.marked(f"state/{site}", "fedtier.deploy.site")), None)

        before = [until(lambda site=site: solver(site), "the solver") for site in made.sites]
        made.serve(made.configure("one", {}), "runs/one")
        until(lambda: rounds_done(tmp_path / "runs/one") >= 1, "a round")
        assert [solver(site) for site in made.sites] == before
        assert made.processes["server"].wait(300) == 0, made.said("server")
        after = [until(lambda k=k: (pid := solver(made.sites[k])) != before[k] and pid, "the next one") for k in range(2)]
        assert set(after).isdisjoint(before)
