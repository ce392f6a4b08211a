"""The driver of rounds: asks the cohort, judges its replies, sums what counts. It knows no runtime, only `ask`.

Never below the quorum: a round that gets too few replies is asked again, with the replies it has, until it has enough.
A reply whose numbers are not finite, explode or have another shape is lost: counted, named, and not waited for, because the
site would compute the same again. A reply counts with the weight that its letter told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..errors import FedtierError
from ..methods import ring
from . import letters
from .contact import Contact, Save, first_line
from .ledger import Job, Ledger, Rules
from .letters import Ask, Head, Kind, Private
from .record import Record
from .rounds import open_round
from .signatures import ServerSeal
from .validation import Reply, Spoilt, read_reply, remembered, too_large

KNOCK = 1.0  # seconds that a site which was silent has to answer a hello before it is asked again


class Down(NamedTuple):
    """What goes down in a round."""

    shared: bytes  # to all
    own: dict[int, bytes]  # to one client
    older: dict[int, bytes]  # to a client that works on an earlier broadcast: that one, and `shared` is empty


class Came(NamedTuple):
    """What has come of a round so far, by client."""

    good: dict[int, Reply]
    declined: set[int]  # by their own word
    lost: set[int]  # whose numbers cannot count
    refused: set[int]  # that answered, but not the question


class Driver(Contact):
    """One run at the server, round by round. For a method with a buffer, whose plan is played step by step, `broadcasts` is the
    ring (`methods.ring`) before the first round."""

    def __init__(
        self, job: Job, ask: Ask, rules: Rules, *,
        note: Callable[[str], None] = lambda line: None,
        stopped: Callable[[], bool] = lambda: False,
        seal: ServerSeal | None = None,
        record: Record | None = None,
        broadcasts: PyTree = (),
    ) -> None:  # fmt: skip
        super().__init__(job, ask, rules, note=note, stopped=stopped, seal=seal, record=record)
        self.ring = broadcasts
        self._open = partial(open_round, job.method, len(job.names))

    def play(self, ledger: Ledger, number: int, save: Save) -> Ledger:
        """`play_round` for `drive`: nothing is saved within a round."""
        return self.play_round(ledger, number)[0]

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
        return self._counted(ledger, number, heads, replies)._replace(server=server), info

    def _counted(self, ledger: Ledger, number: int, heads: dict[int, Head], replies: dict[int, Reply]) -> Ledger:
        """The ledger with these replies in its counts."""
        for i, reply in replies.items():
            ledger.last[i] = number
            ledger.counted[i] += 1
            ledger.bytes_up[...] += reply.size
            ledger.bytes_aside[...] -= reply.size
        made = [replies[i].steps if i in replies else heads[i].steps * (heads[i].kind == Kind.LOST) for i in heads]
        ledger.local_steps[...] += sum(made)
        return ledger._replace(recent=remembered(ledger.recent, replies))

    def _post(
        self, shared: PyTree, own: dict[int, bytes], owns: PyTree, number: int, ids: np.ndarray, ages: np.ndarray | None
    ) -> Down:
        """The letters' parts; a client of a method with a buffer gets the broadcast of the step in which it began."""
        if not self.job.method.buffer:
            return Down(letters.body(shared), own, {})
        ring.refuse_own_messages(self.job.method, owns)
        self.ring = ring.remembered(self.ring, shared, number)
        began = (number - (np.zeros_like(ids) if ages is None else ages)).tolist()
        bodies = {r: letters.body(ring.recalled(self.ring, r)) for r in sorted(set(began))}
        return Down(b"", own, {i: bodies[r] for i, r in zip(ids.tolist(), began, strict=True)})

    def _knock(self, ids: np.ndarray, ledger: Ledger) -> None:
        """Sites of this cohort that were silent are asked again once they answer a hello; not too often, for it costs time."""
        now = time.monotonic()
        self.greet([i for i in ids.tolist() if self._knock_at.get(i, now + 1) <= now], ledger, min(KNOCK, self.rules.deadline))

    def _collect(self, heads: dict[int, Head], post: Down, ledger: Ledger) -> dict[int, Reply]:
        """Replies by client, at least a quorum; counts who was silent or declined."""
        expected = {i for i, head in heads.items() if head.kind == Kind.ROUND}
        came = Came({}, set(), set(), set())
        asked = [i for i in heads if i not in self._knock_at]
        for attempt in range(1 << 62):
            self._attempt(asked, heads, post, ledger, came)
            awaited, need = self._wanted(expected, came)
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

    def _wanted(self, expected: set[int], came: Came) -> tuple[set[int], int]:
        """Who may still answer, and how many answers are enough."""
        awaited = expected - came.declined - came.lost
        return awaited, math.ceil(self.rules.quorum * len(awaited))

    def _attempt(self, asked: list[int], heads: dict[int, Head], post: Down, ledger: Ledger, came: Came) -> None:
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
                    self._refuse(i, ledger, f"round {heads[i].round}: {first_line(error)}")
                    continue
                if isinstance(answer, Reply):
                    fresh[i] = answer
                elif answer.kind == Kind.DECLINED:
                    came.declined.add(i)
                else:
                    back = self._reminded(i, answer, heads, ledger)
                    if not back and answer.kind == Kind.FORGOT:
                        came.refused.add(i)  # it has answered, and is not silent
                    again += back
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
        if not self._forgot(i, answer, heads[i], ledger):
            return []
        heads[i] = heads[i]._replace(last=answer.last)
        return [i]
