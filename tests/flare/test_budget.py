"""What a party may send: who sends faster is read later, alone, and is named once."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedtier.deploy.flare.authority import check_sites, provision
from fedtier.deploy.flare.budget import BURST, Budget, Rate
from fedtier.deploy.flare.peers import PARTIES, Peer, Peers
from fedtier.deploy.flare.validity import Validity
from fedtier.deploy.flare.workspace import read_kit

pytestmark = pytest.mark.flare

RATE = Rate(1000.0, 10.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_beyond_some_seconds_worth_a_sender_waits_as_long_as_the_rate_asks() -> None:
    clock = Clock()
    budget = Budget(RATE, clock)
    assert budget.spend(int(BURST * RATE.bytes)) == 0.0
    assert budget.spend(500) == pytest.approx(0.5) and budget.slowed == 1
    clock.now = 1.5
    assert budget.spend(0) == 0.0
    clock.now = 1000.0  # rest does not add up beyond the bucket
    assert budget.spend(int(BURST * RATE.bytes) + 2000) == pytest.approx(2.0)


def test_many_small_messages_are_as_bad_as_a_large_one() -> None:
    clock = Clock()
    budget = Budget(RATE, clock)
    waits = [budget.spend(1) for _ in range(int(BURST * RATE.messages) + 5)]
    assert not any(waits[:-5]) and waits[-5:] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_over_a_whole_minute_no_more_comes_through_than_the_rate_and_the_bucket() -> None:
    clock, through = Clock(), 0
    budget = Budget(RATE, clock)
    while clock.now < 60.0:
        through += 700
        clock.now += budget.spend(700)
    assert through <= (60.0 + BURST) * RATE.bytes + 2 * 700


def test_the_door_reads_a_party_s_next_message_after_its_wait_and_never_loses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedtier.deploy.flare import listener  # nvflare is there where these tests run, not where they are collected

    slept: list[float] = []
    frames: list[bytes] = []
    monkeypatch.setattr(listener, "RECEIVE", lambda self, frame: frames.append(frame))
    monkeypatch.setattr(listener.time, "sleep", slept.append)
    quick, slow = SimpleNamespace(sock=SimpleNamespace()), SimpleNamespace(sock=SimpleNamespace(budget=Budget(RATE, Clock())))
    for _ in range(3):
        listener.process_frame(quick, b"x" * 9000)
        listener.process_frame(slow, b"y" * 9000)
    assert len(frames) == 6 and slept == pytest.approx([8.0, 17.0])


def test_who_is_slowed_is_named_once_in_the_run_s_log(tmp_path: Path) -> None:
    table: dict[str, Any] = {"name": "trial", "server": "localhost", "port": 18005, "sites": ["north", "south"]}
    kits = provision(check_sites(table), tmp_path / "kits").folder
    peers, said = Peers(None, tmp_path / PARTIES, RATE), []
    with socket.socket() as one, socket.socket() as other:
        for link, name in ((one, "north"), (other, "south")):
            assert not peers.enter(link, Peer(name, 0.0, 4e9))
    north = peers.budget("north")
    assert north is peers.budget("north") and north is not None
    north.spend(10**6)
    assert peers.slow() == ["north"] and peers.slow() == []
    validity = Validity(read_kit(kits / "server", "server"), tmp_path, ["north", "south"], said.append)
    for _ in range(2):
        validity.look()
    assert said == ["north: sends faster than wire.max_bytes_per_second or wire.max_messages_per_second; slowed"]
