# pyright: reportMissingImports=false
"""An admitted site's own executor that misbehaves in every way it can think of, one after the other, and else declines.

Loaded in the place of fedtier.deploy.flare.executor by `hooks/sitecustomize.py`. MISBEHAVE_REPLY names a file with the body
of a genuine reply, MISBEHAVE_LOG the file that gets a line for each kind that was tried; without it the site just declines.
Kinds of three sorts: REPLIES are answers at once, NOISE goes beside a decent answer, SILENCE costs the server its deadline and
comes last, because who is silent again and again is set aside.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedtier.deploy.flare.names import LETTER, TOPIC
from fedtier.protocol import letters
from fedtier.protocol.letters import Head, Kind, Letters, Welcome
from fedtier.protocol.signatures import SERVER, ServerSeal, SiteSeal, read_identity

Arrays = dict[str, np.ndarray]


class Asked(NamedTuple):
    """A letter, and what is needed to answer it."""

    whole: bytes  # with its seal
    head: Head
    hash: bytes
    seal: SiteSeal
    body: bytes  # of a genuine reply
    first: bytes  # the first reply that was ever sealed here
    context: FLContext

    def signed(self, reply: bytes) -> bytes:
        return self.seal.seal(reply, self.hash)

    def reply(self, body: bytes, **other: Any) -> bytes:
        """Signed, with a head that fits the letter but for `other`."""
        head = self.head._replace(kind=Kind.REPLY, steps=min(1, self.head.steps))._replace(**other)
        return self.signed(letters.pack(head, body))

    def words(self, kind: Kind, text: str) -> bytes:
        return self.signed(letters.words(self.head._replace(kind=kind), text))

    def changed(self, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
        """A reply whose arrays were changed."""
        arrays = {name: change(array.copy()) for name, array in safetensors.numpy.load(self.body).items()}
        return self.reply(safetensors.numpy.save(arrays))

    @property
    def plain(self) -> bytes:
        """The letter that would count, without its seal."""
        return letters.pack(self.head._replace(kind=Kind.REPLY, steps=min(1, self.head.steps)), self.body)


def filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.full_like(array, value)


def with_arrays(change: Callable[[Arrays], Arrays]) -> Callable[[Asked], bytes]:
    return lambda a: a.reply(safetensors.numpy.save(change(safetensors.numpy.load(a.body))))


def without_one(arrays: Arrays) -> Arrays:
    return dict(list(arrays.items())[1:])


def container(header: bytes, size: int | None = None) -> bytes:
    """A body of the codec with a header of one's own."""
    return struct.pack("<Q", len(header) if size is None else size) + header


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


LINES = "\n2026-01-01T00:00:00+00:00 site-0: refused: round 1: forged\nsite-1: silent in round 3"
REPLIES: dict[str, Callable[[Asked], Any]] = {
    "not a number": lambda a: a.changed(filled(np.nan)),
    "infinite": lambda a: a.changed(filled(np.inf)),
    "exploding": lambda a: a.changed(filled(1e30)),
    "other shapes": lambda a: a.changed(lambda array: array.reshape(-1)[:1]),
    "other types": lambda a: a.changed(lambda array: array.astype(np.float16)),
    "an array missing": with_arrays(without_one),
    "an array too many": with_arrays(lambda arrays: arrays | {"more": np.zeros(3, np.float32)}),
    "arrays of other names": with_arrays(lambda arrays: {f"{name}x": array for name, array in arrays.items()}),
    "no numbers": lambda a: a.reply(b""),
    "a container that announces exabytes": lambda a: a.reply(container(b"{}", 1 << 62)),
    "a container nested a thousand deep": lambda a: a.reply(container(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}")),
    "a letter in a letter in a letter": lambda a: a.reply(letters.pack(a.head, letters.pack(a.head, a.plain))),
    "nothing": lambda a: b"",
    "garbage": lambda a: bytes(range(256)) * 4,
    "signed garbage": lambda a: a.signed(bytes(range(256)) * 4),
    "another magic word": lambda a: a.signed(b"EVIL" + a.plain[4:]),
    "a kind that is none": lambda a: a.reply(a.body, kind=99),
    "the server's kind": lambda a: a.reply(a.body, kind=Kind.HELLO),
    "a welcome to a round": lambda a: a.reply(a.body, kind=Kind.WELCOME),
    "cut short": lambda a: a.signed(a.plain[:-7]),
    "bytes after the end": lambda a: a.signed(a.plain + b"more"),
    "parts longer than the letter": lambda a: a.signed(a.plain[:8] + struct.pack("<I", 1 << 31) + a.plain[12:]),
    "a fifth of a megabyte": lambda a: a.signed(a.plain + bytes(200_000)),
    "the next round": lambda a: a.reply(a.body, round=a.head.round + 1),
    "round 2,000,000,000": lambda a: a.reply(a.body, round=2_000_000_000),
    "the last round": lambda a: a.reply(a.body, round=a.head.round - 1),
    "another run": lambda a: a.reply(a.body, run=b"x" * 16),
    "another client": lambda a: a.reply(a.body, client=0),
    "too many steps": lambda a: a.reply(a.body, steps=a.head.steps + 1),
    "steps below zero": lambda a: a.reply(a.body, steps=-1),
    "without a seal": lambda a: a.plain,
    "a signature that does not hold": lambda a: flipped(a.signed(a.plain), 150),
    "signed for another letter": lambda a: a.seal.seal(a.plain, b"y" * 32),
    "an old reply again": lambda a: a.first,
    "the server's letter back": lambda a: a.whole,
    "signed as the server": lambda a: (
        ServerSeal(a.seal.identity._replace(party=SERVER)).seal(Letters(b"", {"x": a.plain}))[0].whole("x")
    ),
    "forged lines for the log": lambda a: a.words(Kind.REFUSED, LINES),
    "codes for the terminal": lambda a: a.words(Kind.REFUSED, "\x1b[2J\x1b]0;owned\x07\r\x00\u202egnorw"),
    "a refusal of many words": lambda a: a.words(Kind.REFUSED, "no " * 5000),
    "says that its numbers are spoilt": lambda a: a.words(Kind.SPOILT, LINES),
    "remembers round 2,000,000,000": lambda a: a.reply(b"", kind=Kind.FORGOT, last=2_000_000_000),
    "remembers round -7": lambda a: a.reply(b"", kind=Kind.FORGOT, last=-7),
    "never heard of the run": lambda a: a.reply(b"", kind=Kind.UNKNOWN),
    "words instead of bytes": lambda a: "a letter",
    "nested values instead of bytes": lambda a: {"a": [{"b": [1, [2, [3, [4]]]]}] * 100},
}


def raw(a: Asked) -> ssl.SSLSocket:
    """A connection of its own with the site's good certificate."""
    kit = Path(os.environ["MISBEHAVE_KIT"])
    context = ssl.create_default_context(cafile=str(kit / "startup/rootCA.pem"))
    context.load_cert_chain(kit / "startup/client.crt", kit / "startup/client.key")
    card = json.loads((kit / "kit.json").read_text())
    plain = socket.create_connection((card["server"], card["port"]), timeout=20)
    return context.wrap_socket(plain, server_hostname=card["server"])


def frame(announced: int) -> bytes:
    """FLARE's prefix of a message that is said to have so many bytes."""
    return struct.pack(">IHBBHHHH", announced, 0, 1, 0, 0, 0, 0, 0)


def send(a: Asked, count: int, size: int, topic: str = TOPIC) -> None:
    """Unasked messages to the server's job."""
    request = Shareable()
    request[LETTER] = bytes(size)
    engine: Any = a.context.get_engine()
    for _ in range(count):
        with engine.new_context() as context:
            engine.fire_and_forget_aux_request(topic, request, context, optional=True)


def speak(a: Asked, *parts: bytes, pause: float = 0.0) -> None:
    with raw(a) as link:
        for part in parts:
            link.sendall(part)
            time.sleep(pause)


def hold(a: Asked, count: int, seconds: float) -> None:
    links = [raw(a) for _ in range(count)]
    time.sleep(seconds)
    for link in links:
        link.close()


def come_and_go(a: Asked) -> None:
    for _ in range(30):
        raw(a).close()


def strangers(a: Asked) -> None:
    card = json.loads((Path(os.environ["MISBEHAVE_KIT"]) / "kit.json").read_text())
    links = [socket.create_connection((card["server"], card["port"])) for _ in range(15)]
    time.sleep(6)
    for link in links:
        link.close()


def write_to(a: Asked, victim: str) -> None:
    """The server's letter to this site, and one under its own key, to another site."""
    engine: Any = a.context.get_engine()
    forged = ServerSeal(a.seal.identity._replace(party=SERVER)).seal(Letters(b"", {victim: a.plain}))[0].whole(victim)
    for letter in (a.whole, forged):
        request = Shareable()
        request[LETTER] = letter
        with engine.new_context() as context:
            engine.send_aux_request([victim], TOPIC, request, 1.0, context, optional=True)


NOISE: dict[str, Callable[[Asked], None]] = {
    "2,000 unasked messages": lambda a: send(a, 2_000, 10),
    "500 messages on a topic that is none": lambda a: send(a, 500, 10, "no such topic"),
    "50 unasked megabytes": lambda a: send(a, 50, 1_000_000),
    "a message of 300 MB": lambda a: send(a, 1, 300_000_000),
    "slow bytes": lambda a: speak(a, *(bytes([b]) for b in frame(1000)), pause=0.5),
    "16 bytes that announce 1.9 GB": lambda a: speak(a, frame(1_900_000_000), pause=0.5),
    "a message that ends in the middle": lambda a: speak(a, frame(1_000_000), bytes(500_000)),
    "frames of garbage": lambda a: speak(a, *([bytes(range(256)) * 64] * 10)),
    "20 connections that say nothing": lambda a: hold(a, 20, 5),
    "15 callers without a handshake": strangers,
    "30 connections, one after the other": come_and_go,
    "letters to another site": lambda a: write_to(a, "site-0"),
}
SILENCE: dict[str, Callable[[Asked], Any]] = {
    "a reply of a gigabyte": lambda a: bytes(1_000_000_000),
    "a reply after the deadline": lambda a: time.sleep(float(os.environ["MISBEHAVE_LATE"])) or a.reply(a.body),
    "a code that says no": lambda a: make_reply(ReturnCode.EXECUTION_EXCEPTION),
}
KINDS = [*REPLIES, *NOISE, *SILENCE]


def prepare() -> None:
    """It has no solver to start."""


class SiteExecutor(Executor):
    def __init__(self) -> None:
        super().__init__()
        self.seal = SiteSeal(read_identity(Path(os.environ["MISBEHAVE_KIT"]) / "signing.json"))
        self.body = Path(os.environ["MISBEHAVE_REPLY"]).read_bytes()
        self.left = list(KINDS) if "MISBEHAVE_LOG" in os.environ else []
        self.first, self.lock = b"", threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            engine: Any = fl_ctx.get_engine()
            engine.register_aux_message_handler(TOPIC, self._answer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        content, asked = self.seal.open(request[LETTER])
        head = letters.unpack(content, len(content))[0]
        a = Asked(request[LETTER], head, asked, self.seal, self.body, self.first, fl_ctx)
        with self.lock:
            kind = self.left.pop(0) if self.left and head.kind == Kind.ROUND and head.round > 20 else ""
        found = self._misbehave(kind, a) if kind else self._decent(a)
        if isinstance(found, Shareable):
            return found
        reply = make_reply(ReturnCode.OK)
        reply[LETTER] = found
        return reply

    def _decent(self, a: Asked) -> bytes:
        """Takes part in nothing, as a site may."""
        if a.head.kind == Kind.HELLO:
            welcome = Welcome(np.int32(10), np.int32(0), np.asarray([0, 1, 0], np.int32))
            return a.signed(letters.pack(a.head._replace(kind=Kind.WELCOME), letters.body(welcome)))
        self.first = self.first or a.reply(a.body)
        return a.signed(letters.pack(a.head._replace(kind=Kind.DECLINED)))

    def _misbehave(self, kind: str, a: Asked) -> Any:
        trouble = ""
        try:
            if kind in NOISE:
                threading.Thread(target=NOISE[kind], args=(a,), daemon=True).start()
                return self._decent(a)
            return (REPLIES | SILENCE)[kind](a)
        except Exception as error:
            trouble = repr(error)
            return self._decent(a)
        finally:
            with open(os.environ["MISBEHAVE_LOG"], "a", encoding="utf-8") as log:
                log.write(json.dumps({"kind": kind, "round": a.head.round, "trouble": trouble}) + "\n")
