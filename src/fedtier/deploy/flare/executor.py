# pyright: reportMissingImports=false
"""A site's end of the wire, inside FLARE's job: hands letters to the solver's process and its replies back.

The solver is a child process, so that its death is no death of FLARE's: one dead job process would fail the job of all.
Its command comes from whoever started the site, in the environment, never from a job. Requests of other sites, which FLARE
carries too, are dropped before they are read, by the sender's name as FLARE's server has verified it; the solver then
checks the server's signature, whoever sent the letter.
"""

from __future__ import annotations

import json
import os
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC, StreamHeaderKey
from nvflare.private.defs import CellChannel

from ...protocol.process import SolverProcess
from . import sweeper
from .names import HUNG, LETTER, SOLVER, TOPIC


def refuse_peers(message: Message) -> Message | None:
    """FLARE's filter for what arrives in pieces, as requests do: a message in the place of None ends it here, before memory is
    taken for it. FLARE's server lets no site send under another's name, so the sender's can be believed."""
    request = message.get_header(StreamHeaderKey.CHANNEL) == CellChannel.AUX_COMMUNICATION
    return Message() if request and not from_server(str(message.get_header(MessageHeaderKey.ORIGIN))) else None


def from_server(origin: str) -> bool:
    """FLARE calls the server's processes `server` and `server.JOB`; no site may be called so."""
    return origin.partition(".")[0] == FQCN.ROOT_SERVER


prepared: list[SolverProcess] = []  # one, where this process was started before its job


def prepare() -> None:
    """Starts the solver before there is a job (`ahead`)."""
    prepared.append(_solver())
    prepared[0].begin()


def _solver() -> SolverProcess:
    return SolverProcess(json.loads(os.environ[SOLVER]), float(os.environ[HUNG]))


class SiteExecutor(Executor):
    """Answers the server's letters; FLARE calls from several threads, the solver takes one letter at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.solver: SolverProcess | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            sweeper.install()
            self.solver = prepared.pop() if prepared else _solver()
            self.solver.begin()
            engine: Any = fl_ctx.get_engine()
            engine.get_cell().core_cell.add_incoming_request_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, refuse_peers)
            engine.register_aux_message_handler(TOPIC, self._answer)
        elif event_type == EventType.END_RUN and self.solver is not None:
            self.solver.close()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        letter = request.get(LETTER)
        if not isinstance(letter, bytes) or self.solver is None:
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        answer = self.solver.answer(letter)
        if answer is None:
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply = make_reply(ReturnCode.OK)
        reply[LETTER] = answer
        return reply
