"""The server's end of the wire, inside FLARE's job: letters out, replies in, one request to each site.

A request goes to each site by itself, because a broadcast would show every site the letters of the others. Rounds,
quorum, checks and checkpoints are the driver's; this file only carries bytes.
"""

from __future__ import annotations

import os
import pkgutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

TOPIC = "fedtier"
LETTER = "letter"
PLAY = "FEDTIER_PLAY"  # package.module:function, set by `fedtier serve`: what to do with a transport
PAUSE = 0.2  # seconds before a site that could not be reached is asked again


class RoundController(Controller):
    """FLARE's workflow: hands a transport to the driver and ends with it."""

    def __init__(self, sites: list[str]) -> None:
        super().__init__()
        self.sites = sites

    def start_controller(self, fl_ctx: FLContext) -> None:
        pass

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        play = pkgutil.resolve_name(os.environ[PLAY])
        with ThreadPoolExecutor(max_workers=len(self.sites), thread_name_prefix="ask") as pool:
            play(Transport(fl_ctx.get_engine(), abort_signal, pool))

    def stop_controller(self, fl_ctx: FLContext) -> None:
        pass

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        pass


class Aborted(Exception):
    """FLARE ended the job; the driver's last checkpoint is where the next job starts."""


class Transport:
    """`ask` for the driver, over FLARE's auxiliary requests."""

    def __init__(self, engine: Any, abort: Signal, pool: ThreadPoolExecutor) -> None:
        self.engine, self.abort, self.pool = engine, abort, pool

    def ask(self, letters: Mapping[str, bytes], deadline: float) -> dict[str, bytes]:
        """Each site's reply, where one came within `deadline` seconds."""
        ends = time.monotonic() + deadline
        asked = {site: self.pool.submit(self._ask, site, letter, ends) for site, letter in letters.items()}
        replies = {site: future.result() for site, future in asked.items()}
        if self.abort.triggered:
            raise Aborted
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
                return data if isinstance(data, bytes) else b""
            time.sleep(max(0.0, min(PAUSE, ends - time.monotonic())))
        return None
