"""The driver of a method with a buffer: every site has a task, and its answer brings it the next one.

A task is the letter of a round, to one site, with the broadcast that was the newest when the site got it. An answer takes a
seat in the buffer and is saved at once; with `buffer` seats taken the server makes a step, saves it, and those whose answers
were in it get the new broadcast. A site is in a buffer at most once: before the step there is no newer broadcast for it to
work on, and the same one would bring the same answer.

An answer whose numbers cannot count takes its seat as a lost one: asked again, the site would compute the same. One that is
older than `rules.max_staleness` steps is refused, and the site gets a new task. A site that does not answer within the deadline
loses its task, and is greeted until it is back. Where nobody is at work any more, a step is made of fewer answers, never below
the quorum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..errors import FedtierError
from ..methods import ring
from ..methods.method import turn_of
from . import letters
from .arrivals import NO_TASK, Arrivals
from .contact import PAUSES, Contact, Interrupted, Save, first_line
from .exchange import Answer
from .ledger import Job, Ledger, Rules
from .letters import Ask, Head, Kind, Letters, Private, Scores
from .post import Post, Threads
from .record import Record
from .rounds import broadcast_of, turn_key
from .signatures import ServerSeal
from .validation import Reply, Spoilt, read_reply, remembered, too_large

BEAT = 0.2  # seconds between two looks at who is due a letter, and whether to stop


class _Out(NamedTuple):
    """A letter that is out."""

    head: Head
    hashes: dict[str, bytes]
    awaited: bool  # a task, or a hello to a site that has just answered; no other hello holds a step up


class AsyncDriver(Contact):
    """One run at the server; see the module. `steps` [R + 1, m] are the local steps that a task of each round asks for, `clock`
    tells the seconds of the run so far."""

    def __init__(
        self, job: Job, ask: Ask, rules: Rules, steps: np.ndarray, *,
        post: Post | None = None,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str], None] = lambda line: None,
        stopped: Callable[[], bool] = lambda: False,
        seal: ServerSeal | None = None,
        record: Record | None = None,
    ) -> None:  # fmt: skip
        super().__init__(job, ask, rules, note=note, stopped=stopped, seal=seal, record=record)
        self._post, self._steps, self._clock = Threads(ask) if post is None else post, steps, clock
        self._out: dict[int, _Out] = {}
        self._rest_until: dict[int, float] = {}  # sites that have no answer to this broadcast, until a time or the next step
        self._broadcast = partial(broadcast_of, job.method, len(job.names))
        self._own: PyTree = ()
        self._index = {name: i for i, name in enumerate(job.names)}

    def play(self, ledger: Ledger, number: int, save: Save) -> Ledger:
        """Step `number` of the server; every answer before the one that fills the buffer is saved by itself."""
        ledger, self._number = ledger.copied(), number
        self._rest_until.clear()
        arrivals, address = _arrivals(ledger), self.job.method.address
        self._own = jax.eval_shape(lambda server, key: address(server, turn_of(0, 0, 0, key)), ledger.server, self.job.key)
        ring.refuse_own_messages(self.job.method, self._own)
        arrivals.broadcasts[str(number)] = self._broadcast(ledger.server, jnp.asarray(number), self.job.view, self.job.key)
        while True:
            self._hand_out(ledger)
            if self._ready(ledger):
                return self._step(ledger, number)
            came = self._post.wait(BEAT)
            if self.stopped():
                raise Interrupted
            if came is not None and self._heard(self._index[came[0]], came[1], ledger) and not self._ready(ledger):
                save(ledger, number)

    # -- letters out

    def _hand_out(self, ledger: Ledger) -> None:
        """Whoever has no letter out gets one: its task, or a hello where it is away."""
        arrivals, now = _arrivals(ledger), time.monotonic()
        for i in range(len(self.job.names)):
            if i in self._out or i in arrivals.seated or self._rest_until.get(i, 0.0) > now:
                continue
            if i not in self._knock_at:
                self._send_task(i, ledger)
            elif self._knock_at[i] <= now:
                self._send_hello(i, ledger, awaited=False)

    def _send_task(self, i: int, ledger: Ledger) -> None:
        arrivals, job = _arrivals(ledger), self.job
        if str(arrivals.began[i]) not in arrivals.broadcasts:
            arrivals.began[i], arrivals.told[i] = self._number, job.specs(ledger.rows).weight[i]
        began = int(arrivals.began[i])
        steps, weight = int(self._steps[began, i]), float(arrivals.told[i])
        head = Head(Kind.ROUND, job.run, began, i, steps, int(ledger.last[i]), weight)
        key = turn_key(jnp.asarray(began, jnp.int32), jnp.asarray(i, jnp.int32), job.key)
        own = letters.pack(head, letters.body(Private(self._own, key)))
        shared = letters.body(arrivals.broadcasts[str(began)])
        ledger.bytes_down[...] += len(own) + len(shared)
        self._send(head, own, shared, ledger, awaited=True)

    def _send_hello(self, i: int, ledger: Ledger, *, awaited: bool) -> None:
        head = self._hello_head(i, ledger)
        own, shared = self._hello(head), letters.body(self.first)
        ledger.bytes_aside[...] += len(own) + len(shared)
        self._send(head, own, shared, ledger, awaited=awaited)

    def _send(self, head: Head, own: bytes, shared: bytes, ledger: Ledger, *, awaited: bool) -> None:
        name = self.job.names[head.client]
        sent, hashes = self._exchange.outgoing(Letters(shared, {name: own}, self._most + self._exchange.seal_bytes))
        ledger.bytes_aside[...] += self._exchange.seal_bytes
        self._out[head.client] = _Out(head, dict(hashes), awaited)
        self._post.send(name, sent, self.rules.deadline)

    # -- answers in

    def _heard(self, i: int, reply: bytes | None, ledger: Ledger) -> bool:
        """Whether the answer, or None for silence, has taken a seat."""
        out = self._out.pop(i)
        answer = None
        if reply is not None:
            ledger.bytes_aside[...] += len(reply)
            answer = self._exchange.incoming({self.job.names[i]: reply}, out.hashes)[self.job.names[i]]
        if out.head.kind == Kind.HELLO:
            self._welcome(i, out.head, answer, ledger)
            return False
        if answer is None:
            self._give_up(i, ledger, out.head)
            return False
        return self._judged(i, out.head, answer, ledger)

    def _judged(self, i: int, head: Head, answer: Answer, ledger: Ledger) -> bool:
        arrivals, about = _arrivals(ledger), f"round {head.round}"
        try:
            found = read_reply(answer.open(self._most), head, self.job.up)
        except Spoilt as error:
            self._refuse(i, ledger, f"{about}: {first_line(error)}")
            return self._seat(ledger, head, None)
        except FedtierError as error:
            self._refuse(i, ledger, f"{about}: {first_line(error)}")
            return self._rests(i, ledger, PAUSES[-1])
        if isinstance(found, Head):
            return self._instead(i, head, found, ledger)
        age, most = self._number - head.round, self.rules.max_staleness
        if age > most:
            self._refuse(i, ledger, f"{about}: staleness {age}, must be at most {most}")
            arrivals.began[i] = NO_TASK
            return False
        taken = range(int(arrivals.filled))
        known = {-1 - k: found._replace(norm=float(arrivals.seats.length[k])) for k in taken if arrivals.seats.arrived[k]}
        limit = too_large(known | {i: found}, ledger.recent, self.rules.magnitude).get(i)
        if limit is not None:
            self._refuse(i, ledger, f"{about}: reply of length {found.norm:.4g}, must be below {limit:.4g}")
        return self._seat(ledger, head, found if limit is None else None)

    def _instead(self, i: int, head: Head, found: Head, ledger: Ledger) -> bool:
        """An answer of another kind than a reply."""
        if found.kind == Kind.DECLINED:
            ledger.declined[i] += 1
            return self._rests(i, ledger, math.inf)
        if found.kind == Kind.UNKNOWN:
            self._send_hello(i, ledger, awaited=True)
        elif not self._forgot(i, found, head, ledger):
            return self._rests(i, ledger, PAUSES[-1])
        return False

    def _rests(self, i: int, ledger: Ledger, seconds: float) -> bool:
        """No answer to this broadcast, and no seat: the site gets the next one, or this one again after so many seconds."""
        _arrivals(ledger).began[i] = NO_TASK
        self._rest_until[i] = time.monotonic() + seconds
        return False

    def _give_up(self, i: int, ledger: Ledger, head: Head) -> None:
        self._away(i)
        _arrivals(ledger).began[i] = NO_TASK
        ledger.silent[i] += 1
        self._note(f"{self.job.names[i]}: silent in round {head.round}")

    def _seat(self, ledger: Ledger, head: Head, reply: Reply | None) -> bool:
        """The answer into the buffer; None for one that is lost."""
        arrivals, i, k = _arrivals(ledger), head.client, int(_arrivals(ledger).filled)
        seats = arrivals.seats
        seats.client[k], seats.began[k], seats.weight[k] = i, head.round, head.weight
        seats.steps[k], seats.arrived[k] = head.steps if reply is None else reply.steps, reply is not None
        arrivals.filled[...] += 1
        arrivals.began[i] = NO_TASK
        if reply is None:
            return True
        seats.length[k] = reply.norm
        for place, value in zip(jax.tree.leaves(seats.up), jax.tree.leaves(reply.up), strict=True):
            place[k] = value
        ledger.last[i] = head.round
        ledger.counted[i] += 1
        ledger.bytes_up[...] += reply.size
        ledger.bytes_aside[...] -= reply.size
        ledger.local_steps[...] += reply.steps
        ledger.recent[...] = remembered(ledger.recent, {i: reply})
        age = self._number - head.round
        arrivals.stale[i] += age
        arrivals.stalest[i] = max(int(arrivals.stalest[i]), age)
        return True

    # -- the step

    def _ready(self, ledger: Ledger) -> bool:
        """The buffer is full; or nobody is at work any more, and those who have neither declined nor lost their answers reach
        the quorum."""
        arrivals = _arrivals(ledger)
        seats, taken = len(arrivals.seats.client), int(arrivals.filled)
        if taken == seats:
            return True
        if any(out.awaited for out in self._out.values()):
            return False
        good = int(arrivals.seats.arrived[:taken].sum())
        declined = sum(until == math.inf for until in self._rest_until.values())
        return good >= math.ceil(self.rules.quorum * max(0, seats - (taken - good) - declined))

    def _step(self, ledger: Ledger, number: int) -> Ledger:
        job, arrivals = self.job, _arrivals(ledger)
        by_client, order = arrivals.row(number), arrivals.order
        assert order.staleness is not None and order.seconds is not None
        order.seconds[number] = self._clock()
        ids, arrived, ages = (jnp.asarray(table[number]) for table in (order.ids, order.arrived, order.staleness))
        ups = trees.map(lambda rows: _without_lost(rows[by_client], order.arrived[number]), arrivals.seats.up)
        weights = jnp.asarray(arrivals.seats.weight[by_client])
        specs = trees.take(job.specs(ledger.rows), order.ids[number])._replace(weight=weights)
        at = (jnp.asarray(number, jnp.int32), ids)
        server, _ = self._close(ledger.server, self._own, ups, specs, *at, arrived, ages, job.view, job.key)
        return ledger._replace(server=server, arrivals=arrivals.emptied())

    # -- after a step

    def score(self, ledger: Ledger, number: int, who: Iterable[int], steps: np.ndarray) -> tuple[Ledger, dict[int, Scores]]:
        """As for rounds, from those who are not at work; after the last step all end theirs, and what they bring is dropped."""
        if number == len(_arrivals(ledger).order.ids):
            self._drain(ledger)
        return super().score(ledger, number, [i for i in who if i not in self._out], steps)

    def _drain(self, ledger: Ledger) -> None:
        while any(out.awaited for out in self._out.values()):
            came = self._post.wait(BEAT)
            if self.stopped():
                raise Interrupted
            if came is not None:
                site, reply = came
                out = self._out.pop(self._index[site])
                if reply is None:
                    self._away(self._index[site])
                else:
                    self._exchange.incoming({site: reply}, out.hashes)


def _arrivals(ledger: Ledger) -> Arrivals:
    assert isinstance(ledger.arrivals, Arrivals)
    return ledger.arrivals


def _without_lost(rows: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """Zeros for the answers that are lost: their place may hold an older one."""
    return np.where(arrived.reshape(-1, *[1] * (rows.ndim - 1)), rows, np.zeros((), rows.dtype))
