"""What both drivers share: who is there, who is away, what sites tell of a model, and what is said of whom.

    ask(letters, seconds) -> the replies that came        a site that is missing in them was silent

`Driver` plays rounds that wait for their replies (`driver`), `AsyncDriver` takes answers as they come (`asynchronous`); `drive`
plays a run with either. A round is over when its ledger is saved, and only then does a letter tell a site that its reply
counted; so whatever dies, the round is either repeated with the same answers or finished, for every site alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..errors import NOTHING, FedtierError, require
from ..methods.method import Turn
from . import letters
from .exchange import Answer, Exchange
from .ledger import Job, Ledger, Rules
from .letters import Ask, Head, Kind, Letters, Private, Scores
from .record import Record
from .rounds import close_round, turn_key
from .signatures import ServerSeal
from .validation import read_scores, read_welcome, reply_limit
from .version import OURS, greeting

PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between two attempts below the quorum

Save = Callable[[Ledger, int], None]  # (the ledger, rounds played): on disk when it returns


class Interrupted(Exception):
    """Told to stop; the ledger of the last whole round is saved."""


class Contact:
    """The server's end of one run. `note` gets a line for the log; `stopped` says whether to stop between two attempts."""

    def __init__(
        self, job: Job, ask: Ask, rules: Rules, *,
        note: Callable[[str], None] = lambda line: None,
        stopped: Callable[[], bool] = lambda: False,
        seal: ServerSeal | None = None,
        record: Record | None = None,
    ) -> None:  # fmt: skip
        self.job, self.rules = job, rules.check(len(job.names))
        self._exchange, self._note, self.stopped = Exchange(ask, seal, record), note, stopped
        self._most = reply_limit(job.up)  # bytes of a reply
        self._knock_at: dict[int, float] = dict.fromkeys(range(len(job.names)), 0.0)  # sites that are away
        self._number = 0  # the round that is played, or comes next
        self._later: dict[int, int] = {}  # the rounds that sites know to have counted, where this server has not played them
        self._close = partial(close_round, job.method, len(job.names))

    # -- before the first round

    def start(self, ledger: Ledger, first: int = 0) -> Ledger:
        """The barrier before round `first`: hello until `rules.start` sites have answered."""
        ledger, clients, self._number = ledger.copied(), range(len(self.job.names)), first
        for attempt in range(1 << 62):
            self.greet(list(self._knock_at), ledger)
            there = [i for i in clients if i not in self._knock_at]
            if len(there) >= self.rules.start:
                self._note(f"{len(there)} of {len(clients)} sites are there")
                break
            self._note(f"{len(there)} of {self.rules.start} sites are there, waiting for {self._names(self._knock_at)}")
            self._rest(attempt)
        return ledger

    @property
    def first(self) -> PyTree:
        """What a hello brings: x_0, and the rows that are shown."""
        return letters.first(self.job.x, self.job.shown)

    def greet(self, clients: Iterable[int], ledger: Ledger, seconds: float | None = None) -> None:
        """Hello to some; those that answer are present from now on."""
        heads = {i: self._hello_head(i, ledger) for i in clients}
        if not heads:
            return
        own = {i: self._hello(head) for i, head in heads.items()}
        answers = self._ask(own, letters.body(self.first), seconds or self.rules.deadline, ledger)
        for i, head in heads.items():
            self._welcome(i, head, answers.get(i), ledger)

    def _hello_head(self, i: int, ledger: Ledger) -> Head:
        return Head(Kind.HELLO, self.job.run, 0, i, 0, int(ledger.last[i]), 0.0)

    def _hello(self, head: Head) -> bytes:
        """The own part of a hello; its shared part is x_0."""
        return letters.pack(head, greeting(self.job.brief))

    def _welcome(self, i: int, head: Head, answer: Answer | None, ledger: Ledger) -> None:
        """What became of a hello: the site is present from now on, or away for a while."""
        self._away(i)
        if answer is None:
            return
        try:
            rows, held, version, last = read_welcome(answer.open(self._most), head)
        except FedtierError as error:
            self._refuse(i, ledger, f"its hello: {first_line(error)}")
            return
        if last > max(int(ledger.last[i]), self._number):
            self._set_back(i, last, ledger)
            return
        self._later.pop(i, None)
        if ledger.rows[i] not in (0, rows):
            self._note(f"{self.job.names[i]}: has {rows} rows, had {ledger.rows[i]}")
        if version != OURS:
            self._note(f"{self.job.names[i]}: runs fedtier {version}, the server {OURS}")
        ledger.rows[i], ledger.held[i] = rows, held
        del self._knock_at[i]

    def _set_back(self, i: int, last: int, ledger: Ledger) -> None:
        """A site knows that a round counted which this server has not played. Where most do, the server's folder is an older
        copy, and no more asking helps; a single site may be wrong."""
        self._later[i] = last
        self._refuse(i, ledger, f"it knows that round {last} counted, this server is before round {self._number}")
        rule = f"is of round {self._number}, but {self._names(self._later)} know that round {max(self._later.values())} counted"
        hint = "the run's folder is an older copy: put the newer one back, or start the run anew in another folder"
        require(2 * len(self._later) <= len(self.job.names), "checkpoint", NOTHING, rule, hint)

    def _forgot(self, i: int, answer: Head, asked: Head, ledger: Ledger) -> bool:
        """A site whose memory ends elsewhere than the ledger says: whether it may go on, from where its memory ends."""
        if answer.last >= asked.round:
            self._set_back(i, answer.last, ledger)
            return False
        if not -1 <= answer.last < asked.last:
            self._refuse(i, ledger, f"round {asked.round}: remembers round {answer.last}, which never counted")
            return False
        self._note(f"{self.job.names[i]}: has lost its memory of rounds after {answer.last}; goes on from there")
        ledger.last[i] = answer.last
        return True

    # -- after a round

    def score(self, ledger: Ledger, number: int, who: Iterable[int], steps: np.ndarray) -> tuple[Ledger, dict[int, Scores]]:
        """What the sites tell of the models after `number` rounds; `steps` [m] for the personal solves."""
        job, ledger = self.job, ledger.copied()
        x = job.method.global_model(ledger.server)
        weights = job.specs(ledger.rows).weight
        heads, own = {}, {}
        for i in [i for i in who if i not in self._knock_at]:
            turn = Turn(*(jnp.asarray(value, jnp.int32) for value in (number, i, steps[i])), key=job.key)
            turn = turn._replace(key=turn_key(turn.round, turn.client, job.key))
            heads[i] = Head(Kind.SCORE, job.run, number, i, int(steps[i]), int(ledger.last[i]), float(weights[i]))
            offer = () if job.method.offer is None else job.method.offer(ledger.server, turn)
            own[i] = letters.pack(heads[i], letters.body(Private(offer, turn.key)))
        answers = self._ask(own, letters.body(() if x is None else x), self.rules.deadline, ledger)
        found: dict[int, Scores] = {}
        for i, head in heads.items():
            if i not in answers:
                self._away(i)
                continue
            try:
                scores = read_scores(answers[i].open(self._most), head, job.most_score)
            except FedtierError as error:
                self._refuse(i, ledger, f"scores after round {number}: {first_line(error)}")
                continue
            if scores is not None:
                found[i] = scores
        return ledger, found

    # -- small things

    def _ask(
        self, own: dict[int, bytes], shared: bytes, seconds: float, ledger: Ledger, *, aside: bool = True
    ) -> Mapping[int, Answer]:
        """The replies by client. Bytes that do not belong to a round's count are set aside."""
        if not own:
            return {}
        names = self.job.names
        sent = Letters(shared, {names[i]: letter for i, letter in own.items()}, self._most + self._exchange.seal_bytes)
        answers = self._exchange.ask(sent, seconds)
        came = {i: answers[names[i]] for i in own if names[i] in answers}
        ledger.bytes_aside[...] += sum(len(answer.reply) for answer in came.values()) + self._exchange.seal_bytes * len(own)
        if aside:
            ledger.bytes_aside[...] += sum(len(letter) + len(shared) for letter in own.values())
        return came

    def _away(self, i: int) -> None:
        """Not asked again before it has answered a hello, and not greeted again at once."""
        self._knock_at[i] = time.monotonic() + self.rules.deadline

    def _refuse(self, i: int, ledger: Ledger, words: str) -> None:
        ledger.refused[i] += 1
        self._note(f"{self.job.names[i]}: refused: {words}")

    def _names(self, clients: Iterable[int]) -> str:
        return ", ".join(self.job.names[i] for i in sorted(clients))

    def _rest(self, attempt: int) -> None:
        end = time.monotonic() + PAUSES[min(attempt, len(PAUSES) - 1)]
        while not self.stopped() and time.monotonic() < end:
            time.sleep(0.05)
        if self.stopped():
            raise Interrupted


@runtime_checkable
class Plays(Protocol):
    """What `drive` needs of a driver."""

    stopped: Callable[[], bool]

    def start(self, ledger: Ledger, first: int = 0) -> Ledger: ...

    def play(self, ledger: Ledger, number: int, save: Save) -> Ledger:
        """The ledger after round `number`; a driver may save what it has within the round."""
        ...


def drive(
    driver: Plays, ledger: Ledger, first: int, rounds: int, *,
    save: Save,
    evaluate: Callable[[Ledger, int], Ledger] = lambda ledger, number: ledger,
) -> Ledger:  # fmt: skip
    """Rounds `first` .. `rounds` - 1. `save` puts the ledger on disk and must have done so when it returns; `evaluate` is
    called before the first and after every round."""
    ledger = driver.start(ledger, first)
    for number in range(first, rounds):
        ledger = evaluate(ledger, number)
        ledger = driver.play(ledger, number, save)
        whole = bool(trees.all_finite(ledger.server))
        require(whole, "run", f"round {number}", "diverged: the state is no longer finite", "lower the step sizes")
        save(ledger, number + 1)
        if driver.stopped():
            raise Interrupted
    return evaluate(ledger, rounds)


def first_line(error: FedtierError) -> str:
    return str(error).splitlines()[0]
