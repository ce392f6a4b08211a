"""A site's end of the wire, inside FLARE's job: hands letters to the solver's process and its replies back.

The solver is a child process, so that its death is no death of FLARE's: one dead job process would fail the job of all.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

LETTER = "letter"
TOPIC = "fedtier"

class SiteExecutor(Executor):
    """Answers the server's letters, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()  # FLARE calls handlers concurrently

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._answer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        reply = make_reply(ReturnCode.OK)
        with self.lock:
            reply[LETTER] = request[LETTER]
        return reply
