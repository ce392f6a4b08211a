# pyright: reportMissingImports=false
"""The server's end of the wire, inside FLARE's job: letters out, replies in, one request to each site.

A request goes to each site by itself, because a broadcast would show every site the letters of the others. Rounds,
quorum, checks and checkpoints are the driver's; this file only carries bytes. What to do with them is named by whoever
started the server, in its environment, never by a job.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC, StreamHeaderKey

from ...errors import FedtierError
from ...protocol import Letters, letters
from ...protocol.signatures import opened
from . import sweeper
from .allowance import Allowance
from .names import LETTER, NOTE, PLAY, PROGRESS, TOPIC
from .patience import Patience
from .supervise import MARK
from .validity import read_certificates

PAUSE = 0.2  # seconds before a site that could not be reached is asked again
ROSTER = 2.0  # seconds between two questions for the roster while a site is away


def prepare() -> None:
    """Loads what the job will call, before there is a job (`ahead`)."""
    pkgutil.resolve_name(os.environ[PLAY])


class RoundController(Controller):
    """FLARE's workflow: hands `ask` to the driver and ends with it."""

    def __init__(self, sites: list[str], rounds: int) -> None:
        super().__init__()
        self.sites, self.rounds = sites, rounds
        self.transport: Transport | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        sweeper.install()
        engine: Any = fl_ctx.get_engine()
        engine.register_app_command(PROGRESS, self._progress)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        play = pkgutil.resolve_name(os.environ[PLAY])
        with ThreadPoolExecutor(max_workers=len(self.sites), thread_name_prefix="ask") as pool:
            engine: Any = fl_ctx.get_engine()
            self.transport = Transport(engine, abort_signal, pool)
            cell = engine.get_cell().core_cell
            cell.add_incoming_request_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, self.transport.refuse_long)
            threading.Thread(target=self.transport.keep_roster, daemon=True).start()
            try:
                play(self.transport.ask, lambda: abort_signal.triggered)
            except Aborted:
                self.log_info(fl_ctx, "aborted; the last checkpoint stands")

    def stop_controller(self, fl_ctx: FLContext) -> None:
        pass

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        pass

    def _progress(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:
        transport = self.transport
        return {
            "round": transport.round if transport else None,
            "rounds": self.rounds,
            "silent": sorted(transport.silent) if transport else [],
            "certificates": read_certificates(Path(os.environ[MARK])),
        }


class Aborted(Exception):
    """FLARE ended the job; the driver's last checkpoint is where the next job starts."""


class Transport:
    """`ask` for the driver, over FLARE's auxiliary requests."""

    def __init__(self, engine: Any, abort: Signal, pool: ThreadPoolExecutor) -> None:
        self.engine, self.abort, self.pool = engine, abort, pool
        self.round: int | None = None  # of the latest letter, for those who ask how far the run is
        self.silent: set[str] = set()  # asked, and could not be reached or were late
        note = pkgutil.resolve_name(os.environ[NOTE])
        self.patience, self.allowance = Patience(note), Allowance(note)

    def ask(self, letters: Letters, seconds: float) -> dict[str, bytes]:
        """Each site's reply, where one came within `seconds`; one that was set aside is not asked."""
        now = time.monotonic()
        worth = [site for site in letters.own if self.patience.asks(site, now)]
        for site in worth:
            self.allowance.renew(site, letters.most)
        asked = {site: self.pool.submit(self._ask, site, letters.whole(site), now + seconds) for site in worth}
        replies = {site: future.result() for site, future in asked.items()}
        if self.abort.triggered:
            raise Aborted
        self._note(letters)
        return {site: reply for site, reply in replies.items() if reply is not None}

    def _ask(self, site: str, letter: bytes, ends: float) -> bytes | None:
        """Asks until the site answers or time is up: a site that restarts finds the same letter again."""
        while (left := ends - time.monotonic()) > 0 and not self.abort.triggered:
            request = Shareable()
            request[LETTER] = letter
            with self.engine.new_context() as fl_ctx:
                replies = self.engine.send_aux_request([site], TOPIC, request, left, fl_ctx, optional=True)
            reply = (replies or {}).get(site)
            if reply is not None and reply.get_return_code() == ReturnCode.OK:
                data = reply.get(LETTER)
                self.silent.discard(site)
                self.patience.came(site)
                return data if isinstance(data, bytes) else b""
            self.silent.add(site)
            time.sleep(max(0.0, min(PAUSE, ends - time.monotonic())))
        self.patience.lost(site, time.monotonic())
        return None

    def refuse_long(self, message: Message) -> Message | None:
        """FLARE's filter for what arrives in pieces, as replies do: a message in the place of None ends it here, before memory
        is taken for it."""
        site = str(message.get_header(MessageHeaderKey.ORIGIN)).partition(".")[0]
        announced, piece = message.get_header(StreamHeaderKey.SIZE, 0), message.payload
        size = len(piece) if isinstance(piece, bytes | bytearray | memoryview) else 0
        return None if self.allowance.takes(site, announced, size) else Message()

    def keep_roster(self) -> None:
        """While a site is away, asks FLARE's server who takes part: one that comes back has another token (`rejoin`)."""
        while not self.abort.triggered:
            if self.silent:
                with contextlib.suppress(RuntimeError):  # the server is going down
                    self.engine.sync_clients_from_main_process()
            time.sleep(ROSTER)

    def _note(self, sent: Letters) -> None:
        for own in sent.own.values():
            try:
                letter = opened(own)
                self.round = letters.unpack(letter, len(letter))[0].round
            except FedtierError:
                return
            return
