"""Everything is killed once in one run, and the model is that of an undisturbed one, bit for bit."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from .federation import Federation, federation, model, rounds_done, until

pytestmark = [pytest.mark.flare, pytest.mark.slow]

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 800, "participation": 1.0, "tau": [1.0, 2.0, 3.0], "eval_every": 100},
    "method": {"name": "scaffold"},  # whose clients have a state of their own: it must survive as well
}


def reach(folder: Path, number: int) -> None:
    until(lambda: rounds_done(folder) >= number, f"round {number} in {folder.name}")


def solvers(made: Federation, site: str) -> list[psutil.Process]:
    return [process for process in made.marked(f"state/{site}") if "fedtier.deploy.site" in process.cmdline()]


def kill(processes: list[psutil.Process]) -> int:
    for process in processes:
        process.send_signal(signal.SIGKILL)
    return len(processes)


def test_whatever_dies_the_model_is_the_same(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        # every planned reply must come: a round waits for those who are being restarted
        run = made.configure("run", {"method": TABLES["method"]}, quorum=1.0, deadline=20.0)
        calm = made.play(run, "runs/calm")

        storm = made.root / "runs/storm"
        made.serve(run, "runs/storm")
        reach(storm, 20)
        assert kill(solvers(made, "site-0")) == 1
        reach(storm, 60)
        assert kill(made.marked("state/site-1")) >= 3  # FLARE's client, its job, the solver
        reach(storm, 100)
        assert kill(made.marked("runs/storm")) >= 2  # FLARE's server and its job
        reach(storm, 140)
        made.processes["server"].kill()  # the supervisor too, as when the machine dies
        kill(made.marked("runs/storm"))
        made.processes["server"].wait()
        made.serve(run, "runs/storm")
        reach(storm, 180)
        made.processes["site-2"].kill()  # the supervisor alone: the next one ends what it left behind
        made.processes["site-2"].wait()
        made.join("site-2")
        assert made.processes["server"].wait(600) == 0, made.said("server")

        np.testing.assert_array_equal(model(storm), model(calm))
        assert (storm / "run.log").read_text().count("goes on after round") >= 2  # the server, twice
        rows = [(folder / "metrics.jsonl").read_text().count("\n") for folder in (calm, storm)]
        assert rows[0] == rows[1]


def test_a_run_goes_on_without_a_stopped_site_and_takes_it_back(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        run = made.configure(
            "run", {"method": TABLES["method"], "run": {"rounds": 100_000, "eval_every": 100_000}}, quorum=0.5, deadline=3.0
        )
        folder = made.root / "runs/stop"
        made.serve(run, "runs/stop")
        reach(folder, 10)
        stopped = made.marked("state/site-2")
        for process in stopped:
            os.kill(process.pid, signal.SIGSTOP)
        at = rounds_done(folder)
        reach(folder, at + 30)
        until(lambda: "site-2: silent in round" in made.said("server"), "a word about the silent site")
        time.sleep(5)
        for process in stopped:
            os.kill(process.pid, signal.SIGCONT)
        back = rounds_done(folder)
        until(lambda: counted(folder, "site-2") > back, "a reply of the site that was stopped")


def counted(folder: Path, site: str) -> int:
    """The last round of the site that counted, by the server's checkpoint."""
    import safetensors.numpy

    last = safetensors.numpy.load((folder / "checkpoint.safetensors").read_bytes())["last"]
    return int(last[int(site.removeprefix("site-"))])


def test_serve_and_join_end_on_sigterm_with_130_also_where_flare_s_server_stands_still(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        made.join("site-0")
        made.serve(made.configure("run", {"method": TABLES["method"]}), "runs/still")
        until(lambda: "site site-0: connected" in made.said("site-0"), "a connection")
        for process in made.marked("runs/still"):
            process.suspend()
        time.sleep(25)
        for who in ("server", "site-0"):
            made.processes[who].terminate()
            assert made.processes[who].wait(60) == 130, made.said(who)
