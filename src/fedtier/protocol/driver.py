"""The round driver: asks the sites, judges their replies, sums what counts. It knows no runtime, only `ask`.

    ask(letters, seconds) -> the replies that came        a site that is missing in them was silent

Never below the quorum: a round that gets too few replies is asked again, with the replies it has, until it has enough.
A reply whose numbers are not finite, explode or have another shape is lost: counted, named, and not waited for, because the
site would compute the same again. A reply counts with the weight that its letter told.
A round is over when its ledger is saved, and only then does a letter tell a site that its reply counted; so whatever
dies, the round is either repeated with the same answers or finished, for every site alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..errors import NOTHING, FedtierError, require
from ..methods import ring
from ..methods.method import Turn
from . import letters
from .exchange import Answer, Exchange
from .ledger import Job, Ledger, Rules
from .letters import Ask, Head, Kind, Letters, Private, Scores
from .record import Record
from .rounds import close_round, open_round, turn_key
from .signatures import ServerSeal
from .validation import Reply, Spoilt, read_reply, read_scores, read_welcome, remembered, reply_limit, too_large
from .version import OURS, greeting

KNOCK = 1.0  # seconds that a site which was silent has to answer a hello before it is asked again
PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between two attempts below the quorum


class Interrupted(Exception):
    """Told to stop; the ledger of the last whole round is saved."""


class _Post(NamedTuple):
    """What goes down in a round."""

    shared: bytes  # to all
    own: dict[int, bytes]  # to one client
    older: dict[int, bytes]  # to a client that works on an earlier broadcast: that one, and `shared` is empty


class _Came(NamedTuple):
    """What has come of a round so far, by client."""

    good: dict[int, Reply]
    declined: set[int]  # by their own word
    lost: set[int]  # whose numbers cannot count
    refused: set[int]  # that answered, but not the question


class Driver:
    """One run at the server. `note` gets a line for the log; `stopped` says whether to stop between two attempts. For a method
    with a buffer, whose plan is played step by step, `broadcasts` is the ring (`methods.ring`) before the first round."""

    def __init__(
        self, job: Job, ask: Ask, rules: Rules, *,
        note: Callable[[str], None] = lambda line: None,
        stopped: Callable[[], bool] = lambda: False,
        seal: ServerSeal | None = None,
        record: Record | None = None,
        broadcasts: PyTree = (),
    ) -> None:  # fmt: skip
        self.ring = broadcasts
        self.job, self.rules = job, rules.check(len(job.names))
        self._exchange, self._note, self.stopped = Exchange(ask, seal, record), note, stopped
        self._most = reply_limit(job.up)  # bytes of a reply
        self._knock_at: dict[int, float] = dict.fromkeys(range(len(job.names)), 0.0)  # sites that are away
        self._number = 0  # the round that is played, or comes next
        self._later: dict[int, int] = {}  # the rounds that sites know to have counted, where this server has not played them
        self._open = partial(open_round, job.method, len(job.names))
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

    def greet(self, clients: Iterable[int], ledger: Ledger, seconds: float | None = None) -> None:
        """Hello to some; those that answer are present from now on."""
        heads = {i: Head(Kind.HELLO, self.job.run, 0, i, 0, int(ledger.last[i]), 0.0) for i in clients}
        if not heads:
            return
        words = greeting(self.job.brief)
        own = {i: letters.pack(head, words) for i, head in heads.items()}
        answers = self._ask(own, letters.body(self.job.x), seconds or self.rules.deadline, ledger)
        for i, head in heads.items():
            self._away(i)
            if i not in answers:
                continue
            try:
                rows, held, version, last = read_welcome(answers[i].open(self._most), head)
            except FedtierError as error:
                self._refuse(i, ledger, f"its hello: {_line(error)}")
                continue
            if last > max(int(ledger.last[i]), self._number):
                self._set_back(i, last, ledger)
                continue
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

    # -- a round

    def play_round(self, ledger: Ledger, number: int) -> tuple[Ledger, PyTree]:
        """Round `number`: the ledger after it, and the method's info."""
        job, ledger, self._number = self.job, ledger.copied(), number
        ids, steps, planned, ages, _ = (None if table is None else np.asarray(table[number]) for table in job.plan)
        assert ids is not None and steps is not None and planned is not None
        at, stale = (jnp.asarray(number, jnp.int32), jnp.asarray(ids)), None if ages is None else jnp.asarray(ages)
        shared, owns, turn_keys = self._open(ledger.server, *at, jnp.asarray(steps), stale, job.view, job.key)
        self._knock(ids, ledger)
        heads, own = {}, {}
        for seat, i in enumerate(ids.tolist()):
            kind = Kind.ROUND if planned[seat] else Kind.LOST
            heads[i] = Head(kind, job.run, number, i, int(steps[seat]), int(ledger.last[i]), math.nan)
            own[i] = letters.body(Private(trees.take(owns, seat), turn_keys[seat]))
        replies = self._collect(heads, self._post(shared, own, owns, number, ids, ages), ledger)

        arrived = np.asarray([i in replies for i in ids.tolist()])
        blank = trees.map(lambda s: np.zeros(s.shape, s.dtype), job.up)
        ups = trees.stack([replies[i].up if i in replies else blank for i in ids.tolist()])
        specs = trees.take(self._told_specs(heads, ledger), ids)
        server, info = self._close(ledger.server, owns, ups, specs, *at, jnp.asarray(arrived), stale, job.view, job.key)
        for i, reply in replies.items():
            ledger.last[i] = number
            ledger.counted[i] += 1
            ledger.bytes_up[...] += reply.size
            ledger.bytes_aside[...] -= reply.size
        made = [replies[i].steps if i in replies else heads[i].steps * (heads[i].kind == Kind.LOST) for i in heads]
        ledger.local_steps[...] += sum(made)
        return ledger._replace(server=server, recent=remembered(ledger.recent, replies)), info

    def _post(
        self, shared: PyTree, own: dict[int, bytes], owns: PyTree, number: int, ids: np.ndarray, ages: np.ndarray | None
    ) -> _Post:
        """The letters' parts; a client of a method with a buffer gets the broadcast of the step in which it began."""
        if not self.job.method.buffer:
            return _Post(letters.body(shared), own, {})
        ring.refuse_own_messages(self.job.method, owns)
        self.ring = ring.remembered(self.ring, shared, number)
        began = (number - (np.zeros_like(ids) if ages is None else ages)).tolist()
        bodies = {r: letters.body(ring.recalled(self.ring, r)) for r in sorted(set(began))}
        return _Post(b"", own, {i: bodies[r] for i, r in zip(ids.tolist(), began, strict=True)})

    def _knock(self, ids: np.ndarray, ledger: Ledger) -> None:
        """Sites of this cohort that were silent are asked again once they answer a hello; not too often, for it costs time."""
        now = time.monotonic()
        self.greet([i for i in ids.tolist() if self._knock_at.get(i, now + 1) <= now], ledger, min(KNOCK, self.rules.deadline))

    def _collect(self, heads: dict[int, Head], post: _Post, ledger: Ledger) -> dict[int, Reply]:
        """Replies by client, at least a quorum; counts who was silent or declined."""
        expected = {i for i, head in heads.items() if head.kind == Kind.ROUND}
        came = _Came({}, set(), set(), set())
        asked = [i for i in heads if i not in self._knock_at]
        for attempt in range(1 << 62):
            self._attempt(asked, heads, post, ledger, came)
            awaited = expected - came.declined - came.lost
            need = math.ceil(self.rules.quorum * len(awaited))
            if len(came.good) >= need:
                break
            number, missing = next(iter(heads.values())).round, awaited - came.good.keys()
            self._note(f"round {number}: {len(came.good)} of {need} replies, asking again: {self._names(missing)}")
            self._rest(attempt)
            self.greet([i for i in missing if i in self._knock_at], ledger)
            asked = [i for i in sorted(missing) if i not in self._knock_at]
        for i in awaited - came.good.keys() - came.refused:
            ledger.silent[i] += 1
        for i in came.declined & expected:
            ledger.declined[i] += 1
        return came.good

    def _attempt(self, asked: list[int], heads: dict[int, Head], post: _Post, ledger: Ledger, came: _Came) -> None:
        """Asks once (a site that has lost the thread, twice); what comes goes into `came`."""
        fresh: dict[int, Reply] = {}
        for _ in range(2):
            self._tell_weights(asked, heads, ledger)
            packed = {i: letters.pack(heads[i], post.own[i]) + post.older.get(i, b"") for i in asked}
            ledger.bytes_down[...] += sum(len(letter) + len(post.shared) for letter in packed.values())
            answers = self._ask(packed, post.shared, self.rules.deadline, ledger, aside=False)
            again: list[int] = []
            for i in asked:
                if i not in answers:
                    self._away(i)
                    self._note(f"{self.job.names[i]}: silent in round {heads[i].round}")
                    continue
                try:
                    answer = read_reply(answers[i].open(self._most), heads[i], self.job.up)
                except FedtierError as error:
                    (came.lost if isinstance(error, Spoilt) else came.refused).add(i)
                    self._refuse(i, ledger, f"round {heads[i].round}: {_line(error)}")
                    continue
                if isinstance(answer, Reply):
                    fresh[i] = answer
                elif answer.kind == Kind.DECLINED:
                    came.declined.add(i)
                else:
                    again += self._reminded(i, answer, heads, ledger)
            asked = again
            if not asked:
                break
        for i, limit in too_large(came.good | fresh, ledger.recent, self.rules.magnitude).items():
            if i in fresh:
                came.lost.add(i)
                length = fresh.pop(i).norm
                self._refuse(i, ledger, f"round {heads[i].round}: reply of length {length:.4g}, must be below {limit:.4g}")
        came.good.update(fresh)

    def _tell_weights(self, asked: list[int], heads: dict[int, Head], ledger: Ledger) -> None:
        """Fills in the weights of sites that get their first letter of the round: one that was greeted within it has rows now.
        What a site was told stays, for its reply may have been computed with it."""
        weights = self.job.specs(ledger.rows).weight if asked else ()
        for i in asked:
            if math.isnan(heads[i].weight):
                heads[i] = heads[i]._replace(weight=float(weights[i]))

    def _told_specs(self, heads: dict[int, Head], ledger: Ledger) -> PyTree:
        """The specs, with the weights that this round's letters told."""
        specs = self.job.specs(ledger.rows)
        weights = np.array(specs.weight)
        for i, head in heads.items():
            if not math.isnan(head.weight):
                weights[i] = head.weight
        return specs._replace(weight=jnp.asarray(weights))

    def _reminded(self, i: int, answer: Head, heads: dict[int, Head], ledger: Ledger) -> list[int]:
        """A site that does not know the run gets a hello; one whose memory ends earlier goes on from there."""
        if answer.kind == Kind.UNKNOWN:
            self.greet([i], ledger)
            return [] if i in self._knock_at else [i]
        if answer.last >= heads[i].round:
            self._set_back(i, answer.last, ledger)
            return []
        if not answer.last < heads[i].last:
            self._refuse(i, ledger, f"round {heads[i].round}: remembers round {answer.last}, which never counted")
            return []
        self._note(f"{self.job.names[i]}: has lost its memory of rounds after {answer.last}; goes on from there")
        ledger.last[i] = answer.last
        heads[i] = heads[i]._replace(last=answer.last)
        return [i]

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
                self._refuse(i, ledger, f"scores after round {number}: {_line(error)}")
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
        answers = self._exchange.ask(Letters(shared, {names[i]: letter for i, letter in own.items()}), seconds)
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


def drive(
    driver: Driver, ledger: Ledger, first: int, rounds: int, *,
    save: Callable[[Ledger, int], None],
    evaluate: Callable[[Ledger, int], Ledger] = lambda ledger, number: ledger,
) -> Ledger:  # fmt: skip
    """Rounds `first` .. `rounds` - 1. `save` puts the ledger on disk and must have done so when it returns; `evaluate` is
    called before the first and after every round."""
    ledger = driver.start(ledger, first)
    for number in range(first, rounds):
        ledger = evaluate(ledger, number)
        ledger, _ = driver.play_round(ledger, number)
        whole = bool(trees.all_finite(ledger.server))
        require(whole, "run", f"round {number}", "diverged: the state is no longer finite", "lower the step sizes")
        save(ledger, number + 1)
        if driver.stopped():
            raise Interrupted
    return evaluate(ledger, rounds)


def _line(error: FedtierError) -> str:
    return str(error).splitlines()[0]
