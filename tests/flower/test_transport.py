"""The server's end by itself, over a Grid that the test holds in its hands."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fedtier.protocol import Letters

app, serverapp = (pytest.importorskip(f"flwr.{name}") for name in ("app", "serverapp"))
pytestmark = pytest.mark.flower

SITES = ("north", "south")


class Grid(serverapp.Grid):
    """Nodes are functions from a letter to a reply, an error, or None while it takes its time."""

    def __init__(self, nodes: dict[int, tuple[Any, Callable[[bytes], Any]]]) -> None:
        self.nodes = nodes  # node -> (its partition-id, what it answers)
        self.pushed: dict[str, Any] = {}
        self.letters: list[tuple[int, bytes]] = []

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        numbers = []
        for message in messages:
            numbers.append(f"m{len(self.pushed)}")
            message.metadata.__dict__["_message_id"] = numbers[-1]
            self.pushed[numbers[-1]] = message
            if message.metadata.message_type == "train":
                self.letters.append((message.metadata.dst_node_id, message.content["fedtier"]["letter"]))
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        asked = [self.pushed[number] for number in message_ids]
        found = [(message, self._answer(message)) for message in asked if message.metadata.dst_node_id in self.nodes]
        return [app.Message(value, reply_to=message) for message, value in found if value is not None]

    def _answer(self, message: Any) -> Any:
        partition, answer = self.nodes[message.metadata.dst_node_id]
        if message.metadata.message_type == "query":
            return app.RecordDict({"fedtier": app.ConfigRecord({"partition-id": partition})})
        value = answer(message.content["fedtier"]["letter"])
        return app.RecordDict({"fedtier": app.ConfigRecord({"letter": value})}) if isinstance(value, bytes) else value

    def _never(self, *words: Any, **more: Any) -> Any:
        raise AssertionError("the transport has no use for this")

    set_run = create_message = send_and_receive = _never
    run = property(_never)


class Alone(Grid):
    """Flower does not say that its grid may be used by two threads at once."""

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        assert self.free.acquire(blocking=False), "two threads at once"
        try:
            time.sleep(0.002)
            return super().pull_messages(message_ids)
        finally:
            self.free.release()

    free = threading.Lock()


def echo(letter: bytes) -> bytes:
    return b"re: " + letter


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[Grid], Any]:
    from fedtier.deploy.flower import transport as server

    identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    for name in ("_run_id", "_node_id", "_task_id"):  # what Flower's process tells its messages
        monkeypatch.setattr(identity, name, 1)
    monkeypatch.setattr(server, "LOOK", 0.0)
    monkeypatch.setattr(server, "POLL", 0.001)
    return lambda grid: server.Transport(grid, SITES)


def letters(**own: bytes) -> Letters:
    return Letters(b"x", own)


def test_a_letter_goes_to_the_node_that_says_it_is_the_site(connect: Any) -> None:
    grid = Grid({77: (1, echo), 12: (0, echo)})
    assert connect(grid).ask(letters(north=b"n", south=b"s"), 5.0) == {"north": b"re: nx", "south": b"re: sx"}
    assert sorted(grid.letters) == [(12, b"nx"), (77, b"sx")]


def test_who_is_silent_is_left_out_and_its_reply_serves_the_same_letter_later(connect: Any) -> None:
    slow: dict[str, bytes] = {}
    grid = Grid({1: (0, echo), 2: (1, lambda letter: slow.get("reply"))})
    transport = connect(grid)
    assert transport.ask(letters(north=b"n", south=b"hello"), 0.05) == {"north": b"re: nx"}
    slow["reply"] = b"late"
    assert transport.ask(letters(south=b"hello"), 5.0) == {"south": b"late"}
    assert grid.letters.count((2, b"hellox")) == 1


def test_a_late_reply_to_another_letter_is_dropped(connect: Any) -> None:
    slow: dict[bytes, bytes] = {}
    grid = Grid({1: (0, echo), 2: (1, slow.get)})
    transport = connect(grid)
    transport.ask(letters(south=b"one"), 0.05)
    slow |= {b"onex": b"late", b"twox": b"now"}
    assert transport.ask(letters(south=b"two"), 5.0) == {"south": b"now"}


def test_a_site_that_comes_back_as_another_node_gets_the_letter_anew(connect: Any) -> None:
    grid = Grid({1: (0, lambda letter: None)})
    transport = connect(grid)
    assert transport.ask(letters(north=b"n"), 0.05) == {}
    grid.nodes = {9: (0, echo)}
    assert transport.ask(letters(north=b"n"), 5.0) == {"north": b"re: nx"}


def test_an_error_is_told_and_asked_again(connect: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [app.Error(code=1, reason="the process died"), b"alive"]
    grid = Grid({1: (0, lambda letter: answers.pop(0))})
    assert connect(grid).ask(letters(north=b"n"), 5.0) == {"north": b"alive"}
    assert "north: the process died" in capsys.readouterr().err


@pytest.mark.parametrize("partition", [2, -1, "0"])
def test_a_node_that_is_none_of_the_sites_takes_no_part(
    connect: Any, partition: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = Grid({1: (partition, echo)})
    assert connect(grid).ask(letters(north=b"n"), 0.05) == {}
    assert grid.letters == [] and f"partition-id = {partition!r}, must be 0 .. 1" in capsys.readouterr().err


def test_letters_to_several_sites_may_be_out_at_once_each_asked_for_from_a_thread_of_its_own(connect: Any) -> None:
    """As a method without rounds asks: who is slow holds nobody up, and no reply goes astray."""
    from fedtier.protocol.post import Threads

    waited: list[bytes] = []

    def slow(letter: bytes) -> bytes | None:
        waited.append(letter)
        return echo(letter) if len(waited) > 30 else None

    post = Threads(connect(Alone({77: (1, echo), 12: (0, slow)})).ask)
    post.send("north", letters(north=b"a"), 60.0)
    for _ in range(3):
        post.send("south", letters(south=b"b"), 60.0)
        assert post.wait(60.0) == ("south", b"re: bx")
    assert post.wait(60.0) == ("north", b"re: ax")
