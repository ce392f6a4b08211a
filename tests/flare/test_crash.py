"""Everything fails once in one run, and the models are those of an undisturbed one, bit for bit."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import safetensors
import safetensors.numpy

from .federation import Federation, federation, rounds_done, until
from .relay import Relay, through

pytestmark = [pytest.mark.flare, pytest.mark.slow]

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 100_000, "participation": 1.0, "tau": [1.0, 2.0, 3.0], "eval_every": 100_000},
    "method": {"name": "scaffold"},  # whose clients have a state of their own: it must survive as well
}
STANDSTILL = 25.0  # seconds
HUNG = 60.0  # seconds after which a solver is given up

Tell = Callable[[str, object], None]


def reach(folder: Path, number: int) -> None:
    until(lambda: rounds_done(folder) >= number, f"round {number} in {folder.name}")


def kill(processes: list[psutil.Process]) -> int:
    for process in processes:
        with suppress(psutil.Error):  # a child that ended with its parent
            process.send_signal(signal.SIGKILL)
    return len(processes)


class Storm:
    """One run, disturbed again and again. With `quorum = 1.0` no round is made without the one that was disturbed, so two more
    rounds show that it is back; `tell` gets the seconds from the fault, or from its end where it lasts, until then."""

    def __init__(self, made: Federation, run: Path, relay: Relay, tell: Tell) -> None:
        self.made, self.run, self.relay, self.tell = made, run, relay, tell
        self.folder = made.root / "runs/storm"
        made.serve(run, "runs/storm")
        reach(self.folder, 5)

    def strike(self, name: str, fault: Callable[[], object]) -> None:
        fault()
        clock, at = time.monotonic(), rounds_done(self.folder)
        reach(self.folder, at + 2)
        self.tell(name, round(time.monotonic() - clock, 1))

    def kill_part(self, place: str, word: str) -> None:
        assert kill(self.made.marked(place, word)) >= 1

    def kill_server(self) -> None:
        """As when the machine dies: the supervisor too; then it is started again."""
        self.end_server()
        self.made.serve(self.run, "runs/storm")

    def end_server(self) -> None:
        self.made.processes["server"].kill()
        kill(self.made.marked("runs/storm"))
        self.made.processes["server"].wait()

    def kill_join(self, site: str) -> None:
        """The supervisor alone: the next one ends what it left behind."""
        self.made.processes[site].kill()
        self.made.processes[site].wait()
        self.made.join(site)

    def kill_all(self, *, sites_first: bool) -> None:
        for process in self.made.processes.values():
            process.kill()
        kill(self.made.marked("."))
        for process in self.made.processes.values():
            process.wait()
        if not sites_first:
            self.made.serve(self.run, "runs/storm")
        for site in reversed(self.made.sites) if sites_first else self.made.sites:
            self.made.join(site)
        if sites_first:
            time.sleep(5)
            self.made.serve(self.run, "runs/storm")

    def stand_still(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            process.suspend()
        time.sleep(STANDSTILL)
        for process in processes:
            process.resume()

    def stop_solver(self, site: str) -> None:
        for process in self.made.marked(f"state/{site}", "fedtier.deploy.site"):
            process.suspend()

    def black_hole(self) -> None:
        self.relay.flows.clear()
        time.sleep(STANDSTILL)
        self.relay.flows.set()

    def fill_disk(self, place: str, who: str) -> None:
        """No file of the party's may grow for a while, which needs no disk of its own."""
        for most in (0, resource.RLIM_INFINITY):
            for process in [*self.made.marked(place), psutil.Process(self.made.processes[who].pid)]:
                process.rlimit(psutil.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            if most == 0:
                time.sleep(10)

    def damage_checkpoint(self) -> None:
        self.end_server()
        path = self.folder / "checkpoint.safetensors"
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        self.made.serve(self.run, "runs/storm")

    def renew_server(self) -> None:
        self.made.call("provision", "sites.toml", "--renew", "server")
        until(lambda: "renewed certificate" in self.made.said("server"), "a word about the renewed certificate")

    def call_and_say_nothing(self) -> None:
        """Twenty callers; `status` answers, and rounds are made."""
        calls = [socket.create_connection(("localhost", self.made.port)) for _ in range(20)]
        clock = time.monotonic()
        assert json.loads(self.made.call("status", "kits/admin", "--json"))["status"] == "RUNNING"
        self.tell("status beside idle callers", round(time.monotonic() - clock, 1))
        for call in calls:
            call.close()


def kill_parts(storm: Storm) -> None:
    storm.strike("solver killed", lambda: storm.kill_part("state/site-0", "fedtier.deploy.site"))
    storm.strike("site's job killed", lambda: storm.kill_part("state/site-1", "worker_process"))
    storm.strike("site killed", lambda: kill(storm.made.marked("state/site-2")))
    storm.strike("server's job killed", lambda: storm.kill_part("runs/storm", "runner_process"))
    storm.strike("join killed", lambda: storm.kill_join("site-0"))
    storm.strike("server killed", lambda: kill(storm.made.marked("runs/storm")))


def kill_machines(storm: Storm) -> None:
    for number in ("first", "second", "third"):
        storm.strike(f"server's machine, {number} time", storm.kill_server)
    storm.strike("everything killed", lambda: storm.kill_all(sites_first=False))
    storm.strike("everything killed, sites first", lambda: storm.kill_all(sites_first=True))


def stop_and_cut(storm: Storm) -> None:
    """Each site is lost at most twice: who is lost three times in ten minutes is set aside for a while."""
    storm.strike("connections reset", storm.relay.reset)
    storm.strike("idle callers", storm.call_and_say_nothing)
    storm.strike("site stopped", lambda: storm.stand_still(storm.made.marked("state/site-1")))
    storm.strike("solver stopped", lambda: storm.stop_solver("site-2"))
    storm.strike("server stopped", lambda: storm.stand_still(storm.made.marked("runs/storm")))
    storm.strike("black hole", storm.black_hole)


def spoil_files(storm: Storm) -> None:
    storm.strike("site's disk full", lambda: storm.fill_disk("state/site-0", "site-0"))
    storm.strike("server's disk full", lambda: storm.fill_disk("runs/storm", "server"))
    storm.strike("checkpoint damaged", storm.damage_checkpoint)
    storm.strike("server's certificate renewed", storm.renew_server)
    assert "goes on from previous-checkpoint.safetensors" in (storm.folder / "run.log").read_text()


@pytest.mark.parametrize(
    "trouble", [kill_parts, kill_machines, stop_and_cut, spoil_files], ids=lambda trouble: trouble.__name__
)
def test_whatever_fails_the_models_are_the_same(
    tmp_path: Path, record_property: Tell, trouble: Callable[[Storm], None]
) -> None:
    """The run is stopped after its troubles; a calm one of as many rounds has the same states, at server and sites."""
    with federation(tmp_path, TABLES) as made:
        relay = Relay(made.port)
        through(made, relay)
        for site in made.sites:
            with open(made.root / "data" / f"{site}.toml", "a", encoding="utf-8") as file:
                file.write(f"hung_after = {HUNG}\n")
            made.join(site)
        # every planned reply must come: a round waits for those who are being restarted
        run = made.configure("run", {"method": TABLES["method"]}, quorum=1.0, deadline=20.0)
        storm = Storm(made, run, relay, record_property)
        trouble(storm)
        made.processes["server"].terminate()
        assert made.processes["server"].wait(120) == 130, made.said("server")
        relay.close()
        rounds = rounds_done(storm.folder)
        ended = {"method": TABLES["method"], "run": {"rounds": rounds, "eval_every": rounds}}
        calm = made.rehearse(made.configure("calm", ended), "calm")

    same(arrays(storm.folder / "checkpoint.safetensors", "server."), arrays(calm / "checkpoint.safetensors", "server."))
    for site in made.sites:
        found = [states(made.root / "state" / site / "memory", storm.folder, rounds - 1)]
        found += [states(calm.parent / "state" / site, calm, rounds - 1)]
        same(*found)


def arrays(path: Path, prefix: str) -> dict[str, np.ndarray]:
    found = safetensors.numpy.load(path.read_bytes())
    return {name.removeprefix(prefix): array for name, array in found.items() if name.startswith(prefix)}


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys() != set()
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])


def states(memory: Path, folder: Path, number: int) -> dict[str, np.ndarray]:
    """What a site had after round `number`, of which its personal model is made: its latest state, or the one before it where
    it has answered another letter since."""
    run = json.loads((folder / "wire.json").read_text())["run"]
    path = memory / run / "memory.safetensors"
    with safetensors.safe_open(path, "numpy") as file:
        words = file.metadata()
    return arrays(path, "pending." if words.get("pending") == str(number) else "kept.")


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
    last = safetensors.numpy.load((folder / "checkpoint.safetensors").read_bytes())["last"]
    return int(last[int(site.removeprefix("site-"))])


def test_serve_and_join_end_on_sigterm_with_130_also_where_flare_s_server_stands_still(
    tmp_path: Path, record_property: Tell
) -> None:
    with federation(tmp_path, TABLES) as made:
        made.join("site-0")
        made.serve(made.configure("run", {"method": TABLES["method"]}), "runs/still")
        until(lambda: "site site-0: connected" in made.said("site-0"), "a connection")
        for process in made.marked("runs/still"):
            process.suspend()
        time.sleep(25)
        clock = time.monotonic()
        for who in ("server", "site-0"):
            made.processes[who].terminate()
            assert made.processes[who].wait(60) == 130, made.said(who)
        record_property("ended", time.monotonic() - clock)
