"""What a site sends to the server's job between two letters is measured before memory is taken for it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedtier.deploy.flare.allowance import ROOM, SMALLEST, Allowance
from fedtier.deploy.flare.names import NOTE

pytestmark = pytest.mark.flare

MOST = 5000


def test_a_reply_and_a_late_one_are_taken_and_no_more_until_the_next_letter() -> None:
    said: list[str] = []
    allowance = Allowance(said.append)
    assert allowance.takes("server", 10**9, 10**6)  # was never written to
    allowance.renew("north", MOST)
    assert allowance.takes("north", MOST, MOST) and allowance.takes("north", MOST, MOST) and not said
    assert allowance.takes("north", ROOM, ROOM)
    assert not allowance.takes("north", 1, 1)
    allowance.renew("north", MOST)
    assert allowance.takes("north", MOST, MOST)


def test_a_flood_of_small_messages_costs_what_large_ones_do() -> None:
    allowance = Allowance(lambda line: None)
    allowance.renew("north", MOST)
    assert sum(allowance.takes("north", 1, 1) for _ in range(2000)) == (2 * MOST + ROOM) // SMALLEST


@pytest.mark.parametrize("announced", [10**9, -1, None, "10", 1e3, 2 * MOST + ROOM + 1])
def test_what_is_announced_too_long_or_not_as_a_number_is_dropped_and_named_seldom(announced: object) -> None:
    said: list[str] = []
    allowance = Allowance(said.append)
    allowance.renew("north", MOST)
    for _ in range(100):
        assert not allowance.takes("north", announced, 1)
    assert len(said) == 7 and all(line.startswith("north: sends ") for line in said)
    assert allowance.takes("north", MOST, MOST)  # nothing of it was charged


def test_the_job_s_filter_reads_the_sender_and_the_length_of_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from nvflare.apis.signal import Signal
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message
    from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

    from fedtier.deploy.flare.controller import Transport

    monkeypatch.setitem(os.environ, NOTE, "builtins:str")
    with ThreadPoolExecutor(max_workers=1) as pool:
        transport = Transport(None, Signal(), pool)
    transport.allowance.renew("north", MOST)

    def piece(origin: str, announced: int, data: bytes) -> Message:
        return Message({MessageHeaderKey.ORIGIN: origin, StreamHeaderKey.SIZE: announced}, data)

    assert transport.refuse_long(piece("north.job", 10**9, b"x" * MOST)) is not None
    assert transport.refuse_long(piece("server", 10**9, b"x" * MOST)) is None
    while transport.refuse_long(piece("north.job", MOST, b"x" * MOST)) is None:
        pass
    assert transport.allowance.left["north"] < MOST
