# pyright: reportMissingImports=false
"""The server's end of the wire, inside Flower's ServerApp: letters out over the Grid, replies in.

Flower knows its nodes by numbers of its own, new at each restart; which client a node is, only the node can say. So each
new node is asked once, and letters go to the node that said so last. Rounds, quorum, checks and checkpoints are the
driver's; this file only carries bytes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from ...protocol import Ask, Letters
from .names import LETTER, PARTITION, RECORD, ROLL_CALL, ROUND

POLL = 0.1  # seconds between two looks for replies; Flower's own loop looks every 3 s
LOOK = 1.0  # seconds between two looks for new nodes
LATE = 120.0  # seconds that a reply may come after its deadline and still be of use: a site may answer a hello so late


class Sent(NamedTuple):
    message: str  # Flower's number of it
    letter: bytes


class Transport:
    """`ask` for the driver, over Flower's Grid; site k of `sites` is the node whose partition-id is k."""

    def __init__(self, grid: Grid, sites: Sequence[str]) -> None:
        self.grid, self.sites = grid, tuple(sites)
        self.calls: dict[str, int] = {}  # unanswered roll calls, message -> node
        self.called: set[int] = set()  # nodes that were asked who they are
        self.nodes: dict[str, int] = {}  # site -> the node that is it
        self.sent: dict[str, Sent] = {}  # site -> the letter it has not answered yet
        self.looked = 0.0
        self.lock = threading.Lock()  # a method without rounds asks from several threads, each for a site of its own

    def ask(self, letters: Letters, seconds: float) -> dict[str, bytes]:
        """Each site's reply, where one came within `seconds`.

        A letter that is still on its way is not sent twice: who asks again, waits for the same reply.
        """
        ends = time.monotonic() + seconds
        replies: dict[str, bytes] = {}
        wanted = {site: letters.whole(site) for site in letters.own}
        with self.lock:
            self.sent = {site: sent for site, sent in self.sent.items() if wanted.get(site, sent.letter) == sent.letter}
        while True:
            with self.lock:
                self._meet()
                self._send({site: letter for site, letter in wanted.items() if site not in replies}, seconds)
                self._receive(replies, wanted)
            if len(replies) == len(wanted) or time.monotonic() >= ends:
                return replies
            time.sleep(POLL)

    def _meet(self) -> None:
        """Asks nodes that are new who they are."""
        if time.monotonic() - self.looked < LOOK:
            return
        self.looked = time.monotonic()
        present = set(self.grid.get_node_ids())
        self.called &= present
        for site, node in list(self.nodes.items()):
            if node not in present:  # its letter went with it; the next node that is this site gets it anew
                del self.nodes[site]
                self.sent.pop(site, None)
        for node in sorted(present - self.called):
            self.called.add(node)
            self.calls[self._push(node, ROLL_CALL, b"", LATE)] = node

    def _send(self, letters: dict[str, bytes], seconds: float) -> None:
        for site, letter in letters.items():
            if site in self.nodes and site not in self.sent:
                self.sent[site] = Sent(self._push(self.nodes[site], ROUND, letter, seconds + LATE), letter)

    def _push(self, node: int, kind: str, letter: bytes, ttl: float) -> str:
        content = RecordDict({RECORD: ConfigRecord({LETTER: letter})})
        return next(iter(self.grid.push_messages([Message(content, node, kind, ttl=ttl)])))

    def _receive(self, replies: dict[str, bytes], wanted: dict[str, bytes]) -> None:
        waiting = {sent.message: site for site, sent in self.sent.items() if site in wanted}
        if not waiting and not self.calls:
            return
        for message in self.grid.pull_messages([*waiting, *self.calls]):
            number = message.metadata.reply_to_message_id
            if number in self.calls:
                self._introduce(self.calls.pop(number), message)
            elif number in waiting:
                site = waiting[number]
                del self.sent[site]
                if not failed(message, site):  # else it is asked again, until time is up
                    letter = _value(message, LETTER)
                    replies[site] = letter if isinstance(letter, bytes) else b""  # the driver refuses it by the site's name

    def _introduce(self, node: int, message: Message) -> None:
        if failed(message, f"node {node}"):
            self.called.discard(node)
            return
        index = _value(message, PARTITION)
        if not isinstance(index, int) or not 0 <= index < len(self.sites):
            tell(f"node {node}: {PARTITION} = {index!r}, must be 0 .. {len(self.sites) - 1}; it takes no part")
            return
        site = self.sites[index]
        self.sent.pop(site, None)  # what its former node has not answered
        self.nodes[site] = node
        tell(f"{site}: node {node}")


def failed(message: Message, who: str) -> bool:
    """Whether Flower gave a reason instead of an answer; it is told."""
    if message.has_error():
        tell(f"{who}: {message.error.reason}")
    return message.has_error()


def _value(message: Message, key: str) -> Any:
    return message.content.config_records.get(RECORD, {}).get(key)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def server_app(play: Callable[[dict[str, Any], Callable[[Sequence[str]], Ask]], None]) -> ServerApp:
    """Flower's ServerApp around `play(run_config, connect)`, where `connect(sites)` gives an `ask`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        play(dict(context.run_config), lambda sites: Transport(grid, sites).ask)

    return app
