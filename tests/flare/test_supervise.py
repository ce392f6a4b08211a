"""The supervisor by itself: how soon a dead process is started again, and what ends with it."""

from __future__ import annotations

import errno
import io
import logging
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedtier.deploy.flare import supervise
from fedtier.deploy.flare.admin import hushed
from fedtier.deploy.flare.supervise import Party, Space
from fedtier.deploy.flare.workspace import Kit


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Mortal:
    """A process that dies when its time has come."""

    returncode = 1

    def __init__(self, clock: Clock, life: float) -> None:
        self.clock, self.end = clock, clock.now + life

    def poll(self) -> int | None:
        return self.returncode if self.clock.now >= self.end else None


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[float, float, int], list[float]]:
    """starts(life, beat, count): the seconds between each death and the next start, for processes that live so long."""

    def run(life: float, beat: float, count: int) -> list[float]:
        clock = Clock()
        monkeypatch.setattr(supervise, "time", clock)
        party = Party(Kit(tmp_path, "north", "site", ("north",), "localhost", 1, ""), tmp_path, {}, lambda line: None)
        waits: list[float] = []

        def start(self: Party) -> None:
            if self.process is not None:
                waits.append(clock.now - self.process.end)  # pyright: ignore[reportAttributeAccessIssue]
            self.process = Mortal(clock, life)  # pyright: ignore[reportAttributeAccessIssue]
            self.started, self.died = clock.now, None

        monkeypatch.setattr(Party, "_start", start)
        while len(waits) < count:
            party.keep()
            clock.sleep(beat)
        return waits

    return run


@pytest.mark.parametrize("beat", [0.05, 0.5, 1.0])
def test_the_pause_before_a_restart_doubles_with_each_launch_that_did_not_last_however_often_one_looks(
    starts: Callable[[float, float, int], list[float]], beat: float
) -> None:
    waits = starts(0.3, beat, 7)
    for wait, expected in zip(waits, (1, 3, 7, 15, 30, 30, 30), strict=True):
        assert expected <= wait <= expected + 2 * beat + 1e-6


def test_a_process_that_lasted_is_started_again_at_once(starts: Callable[[float, float, int], list[float]]) -> None:
    assert all(wait <= 1.0 for wait in starts(100.0, 0.5, 3))


def test_a_process_that_vanishes_while_it_is_looked_at_does_not_stop_the_others_from_being_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = Party(Kit(tmp_path, "north", "site", ("north",), "localhost", 1, ""), tmp_path, {}, lambda line: None)
    line = [sys.executable, "-c", "import signal, time; signal.signal(15, 1); print(1, flush=True); time.sleep(60)"]
    stubborn = subprocess.Popen(line, env=party.environment, stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    with stubborn.stdout as said:
        assert said.readline()
    monkeypatch.setattr(supervise, "GRACE", 0.2)

    def vanished(self: psutil.Process) -> Any:
        raise psutil.NoSuchProcess(self.pid)

    monkeypatch.setattr(psutil.Process, "status", vanished)
    clock = time.monotonic()
    party.end()
    assert stubborn.wait(10) == -9 and time.monotonic() - clock < 10


def test_what_a_process_said_is_still_there_after_its_restart_and_the_log_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = Party(Kit(tmp_path, "north", "site", ("north",), "localhost", 1, ""), tmp_path, {}, lambda line: None)
    monkeypatch.setattr(supervise, "open_workspace", lambda kit, folder: folder)
    monkeypatch.setattr(supervise, "command_of", lambda kit: supervise.Command("platform", "", ()))  # says what this machine is
    for _ in range(2):
        party._start()
        assert party.process is not None and party.process.wait(30) == 0
    said = party.log.read_text().splitlines()
    assert [line.startswith("--- started ") for line in said] == [True, False, True, False]
    monkeypatch.setattr(supervise, "MOST_LOG", 10)
    supervise.trim(party.log)
    party._start()
    assert party.process.wait(30) == 0
    assert len(party.log.read_text().splitlines()) == 2 and len((tmp_path / "console.log.1").read_text().splitlines()) == 4


def test_a_log_is_bounded_while_its_process_goes_on_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "MOST_LOG", 1000)
    party = Party(Kit(tmp_path, "north", "site", ("north",), "localhost", 1, ""), tmp_path, {}, lambda line: None)
    party.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with open(tmp_path / "audit.log", "a") as audit:  # as FLARE opens it
        for k in range(300):
            audit.write(f"line {k:05d}\n")
            audit.flush()
            party.keep()
    party.process.communicate(b"\n")
    kept = [path.read_text().splitlines() for path in (tmp_path / "audit.log.1", tmp_path / "audit.log")]
    assert kept[0] + kept[1] == [f"line {k:05d}" for k in range(300 - len(kept[0] + kept[1]), 300)]
    assert all(len(lines) * 11 <= 1011 for lines in kept) and len(kept[0]) > 80


def test_a_folder_that_cannot_be_written_is_told_once_and_so_is_the_end_of_that(tmp_path: Path) -> None:
    said: list[str] = []
    space = Space(tmp_path, said.append)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (most[0], 0, 0, most[0], most[0]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most[1]))  # no file may grow beyond it, as on a full disk
        space.look()
    assert said == [f"{tmp_path}: cannot be written: File too large", f"{tmp_path}: can be written again"]
    assert not list(tmp_path.iterdir())


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, text)


def test_a_supervisor_whose_own_words_cannot_be_written_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    supervise.tell("anything")


def test_only_flare_is_hushed_and_only_meanwhile() -> None:
    root, flare = logging.getLogger(), logging.getLogger("nvflare")
    before = root.level, flare.level
    with hushed():
        assert root.level == before[0] and not flare.getChild("fuel").isEnabledFor(logging.CRITICAL)
    assert (root.level, flare.level) == before
