# pyright: reportMissingImports=false
"""An admitted site's own executor: it declines every round, and writes to the other sites as if it were the server.

Loaded in the place of fedtier.deploy.flare.executor by `hooks/sitecustomize.py`, in the job that FLARE starts here. What it
tries, and what comes back, goes line by line into the file that HOSTILE_LOG names.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedtier.deploy.flare.names import LETTER, TOPIC
from fedtier.protocol import letters
from fedtier.protocol.letters import Head, Kind, Letters, Welcome
from fedtier.protocol.signatures import SERVER, ServerSeal, SiteSeal, opened, read_identity

PATIENCE = {"site-0": 0.1, "site-1": 5.0}  # seconds: the one never answers, the other in milliseconds once it is awake


def prepare() -> None:
    """It has no solver to start."""


class SiteExecutor(Executor):
    def __init__(self) -> None:
        super().__init__()
        self.identity = read_identity(Path(os.environ["HOSTILE_KEYS"]))
        self.victims = os.environ["HOSTILE_VICTIMS"].split()
        self.lock, self.tried = threading.Lock(), set()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._answer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Keeps to the protocol towards the server, after it has used what the letter told it."""
        content, asked = SiteSeal(self.identity).open(request[LETTER])
        head, own, shared = letters.unpack(content, len(content))
        with self.lock:
            if (head.kind, head.round) not in self.tried and len(self.tried) < 3:
                self.tried.add((head.kind, head.round))
                self._attack(request[LETTER], head, own, shared, fl_ctx)
        answer = letters.pack(head._replace(kind=Kind.DECLINED))
        if head.kind == Kind.HELLO:
            welcome = Welcome(np.int32(10), np.int32(0), np.asarray([0, 1, 0], np.int32))
            answer = letters.pack(head._replace(kind=Kind.WELCOME), letters.body(welcome))
        reply = make_reply(ReturnCode.OK)
        reply[LETTER] = SiteSeal(self.identity).seal(answer, asked)
        return reply

    def _attack(self, genuine: bytes, head: Head, own: bytes, shared: bytes, fl_ctx: FLContext) -> None:
        for client, victim in enumerate(self.victims):
            for kind in (Kind.HELLO, Kind.ROUND, Kind.LOST, Kind.SCORE):
                for number in (head.round, 2_000_000_000):
                    forged = letters.pack(head._replace(kind=kind, round=number, client=client, last=number - 1), own)
                    seal = ServerSeal(self.identity._replace(party=SERVER))
                    sealed = seal.seal(Letters(shared, {victim: forged}))[0].whole(victim)
                    ways = {"bare": forged + shared, "own key": sealed, "seal of my letter": genuine[:176] + forged + shared}
                    for way, letter in ways.items():
                        self._send(victim, kind, way, letter, fl_ctx)
            self._send(victim, Kind(head.kind), "my letter passed on", genuine, fl_ctx)

    def _send(self, victim: str, kind: Kind, way: str, letter: bytes, fl_ctx: FLContext) -> None:
        request = Shareable()
        request[LETTER] = letter
        engine = fl_ctx.get_engine()
        with engine.new_context() as context:
            context.set_prop(ReservedKey.IDENTITY_NAME, "server", private=False)  # a lie that FLARE passes on
            replies = engine.send_aux_request([victim], TOPIC, request, PATIENCE[victim], context, optional=True)
        reply: Any = (replies or {}).get(victim)
        said = {"victim": victim, "kind": kind.name, "way": way, "code": reply and reply.get_return_code()}
        data = reply.get(LETTER) if reply is not None else None
        if isinstance(data, bytes):
            said |= {"bytes": len(data), "constant": data == letters.UNSIGNED, "got": letters.about(opened(data))["kind"]}
        with open(os.environ["HOSTILE_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps(said) + "\n")
