"""Rounds whose replies the server never sees: three exchanges instead of one, and a sum at their end.

Never below the threshold: a stage that too few answer is asked again, as a round is below its quorum. Where even all that may
still answer are too few, because sites have declined, cannot be masked, or have revealed for a sum that died with
an earlier server, the round is lost: it is said aloud, and the model stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ... import trees
from ...errors import FedtierError, require
from .. import letters
from ..contact import first_line
from ..driver import Came, Down, Driver
from ..ledger import Job, Ledger, Rules
from ..letters import HEAD, SLACK, Ask, Head, Kind, Private
from ..record import Record
from ..rounds import conclude_round
from ..signatures import ServerSeal
from ..validation import Reply, open_reply
from .at_site import tree_of
from .messages import Boxes, Card, Dealt, Keys, MaskedShared, Revealed, Roster, Unmask, blank
from .settings import Masking
from .unmasking import alive_of, boxes_for, group_keys, roster_of, unmasked


class LostRound(Exception):
    """Why a round cannot be unmasked any more."""


class MaskedDriver(Driver):
    """A driver for a run with `masking`; `total` has the shapes of what is summed, and job.up those of masked replies."""

    def __init__(
        self, job: Job, ask: Ask, rules: Rules, masking: Masking, total: PyTree, *,
        note: Callable[[str], None] = lambda line: None,
        stopped: Callable[[], bool] = lambda: False,
        seal: ServerSeal | None = None,
        record: Record | None = None,
    ) -> None:  # fmt: skip
        super().__init__(job, ask, rules, note=note, stopped=stopped, seal=seal, record=record)
        self.masking, self.total = masking.check(), total
        clients = len(job.names)
        self._blank = {kind: blank(kind, clients) for kind in (Card, Dealt, Revealed)}
        self._most = max(self._most, *(HEAD.size + SLACK + letters.body_size(one) for one in self._blank.values()))
        self._cards: dict[int, Card] = {}
        planned = np.asarray(job.plan.arrived).sum(axis=-1)
        rule = f"leaves round {int(np.argmin(planned))} with fewer sites than the threshold of {masking.threshold}"
        require(int(planned.min(initial=clients)) >= masking.threshold, "run.dropouts", int(planned.min(initial=0)), rule, "0")

    def play_round(self, ledger: Ledger, number: int) -> tuple[Ledger, PyTree]:
        """Round `number`: the ledger after it, and the method's info; nothing but counts changes in a round that is lost."""
        job, ledger, self._number = self.job, ledger.copied(), number
        ids, steps, planned = (np.asarray(table[number]) for table in job.plan[:3])
        at = jnp.asarray(number, jnp.int32), jnp.asarray(ids)
        shared, owns, turn_keys = self._open(ledger.server, *at, jnp.asarray(steps), None, job.view, job.key)
        self._knock(ids, ledger)
        heads, own = {}, {}
        for seat, i in enumerate(ids.tolist()):
            if planned[seat]:
                heads[i] = Head(Kind.ROUND, job.run, number, i, int(steps[seat]), int(ledger.last[i]), math.nan)
                own[i] = letters.body(Private(trees.take(owns, seat), turn_keys[seat]))
        try:
            roster, dealt = self._deal(heads, ledger)
            keys, signed = group_keys(roster, dealt)
            group = {i: heads[i] for i in dealt}
            down = Down(letters.body(MaskedShared(shared, keys, signed)), own, {})
            replies = self._collect(group, down, ledger)
            words = self._unmask(group, keys, dealt, replies, ledger)
        except LostRound as why:
            self._note(f"round {number}: lost: {why}; the model stays as it was")
            return ledger, ()
        total = tree_of(self.masking.grid.numbers(words), self.total)
        server, info = conclude_round(
            job.method, len(job.names), ledger.server, trees.map(jnp.asarray, total), at[0], job.view, job.key
        )
        return self._counted(ledger, number, group, replies)._replace(server=server), info

    def _wanted(self, expected: set[int], came: Came) -> tuple[set[int], int]:
        """Who refuses has revealed before, and will not mask again."""
        awaited = expected - came.declined - came.lost - (came.refused - came.good.keys())
        return awaited, self._need(awaited)

    def _need(self, awaited: set[int]) -> int:
        enough = self.masking.threshold
        if len(awaited) < enough:
            raise LostRound(f"{len(awaited)} sites can still take part, and the threshold is {enough}")
        return max(enough, math.ceil(self.rules.quorum * len(awaited)))

    def _deal(self, heads: Mapping[int, Head], ledger: Ledger) -> tuple[Roster, dict[int, Dealt]]:
        """The roster of the round and what its sites have dealt: enough of them, each after its card."""
        clients, declined = len(self.job.names), set[int]()
        for attempt in range(1 << 62):
            need = self._need(set(heads) - declined)
            there = [i for i in heads if i not in self._knock_at and i not in declined]
            fresh = [i for i in there if i not in self._cards]
            self._cards |= self._small(Kind.CARD, fresh, heads, (), {}, Card, ledger, declined)
            roster = roster_of(clients, {i: self._cards[i] for i in there if i in self._cards})
            dealt: dict[int, Dealt] = {}
            if roster.present.sum() >= need:
                dealt = self._small(Kind.SHARES, self._cards.keys() & {*there}, heads, roster, {}, Dealt, ledger, declined)
            if len(dealt) >= self._need(set(heads) - declined):
                return roster, dealt
            self._again(attempt, "keys", len(dealt), need, set(heads) - declined - dealt.keys(), ledger)
        raise AssertionError

    def _unmask(
        self, heads: Mapping[int, Head], keys: Keys, dealt: Mapping[int, Dealt], replies: Mapping[int, Reply], ledger: Ledger
    ) -> np.ndarray:
        """The sum of the replies, once the threshold of those that sent them have revealed their shares."""
        masked = {i: reply.up for i, reply in replies.items()}
        asked = Unmask(keys, alive_of(len(self.job.names), masked))
        boxes = {i: Boxes(boxes_for(i, dealt)) for i in masked}
        told: dict[int, Revealed] = {}
        refused: set[int] = set()
        need = self.masking.threshold
        for attempt in range(1 << 62):
            missing = masked.keys() - told.keys() - refused
            there = [i for i in sorted(missing) if i not in self._knock_at]
            told |= self._small(Kind.UNMASK, there, heads, asked, boxes, Revealed, ledger, refused)
            if len(told) >= need:
                try:
                    return unmasked(self.masking, self.job.run, self._number, keys, dealt, masked, told)
                except FedtierError as error:  # shares that cannot be right: better no sum than a wrong one
                    raise LostRound(first_line(error)) from None
            if len(masked) - len(refused) < need:
                raise LostRound(f"{self._names(refused)} do not reveal their shares, and the threshold is {need}")
            self._again(attempt, "shares", len(told), need, masked.keys() - told.keys() - refused, ledger)
        raise AssertionError

    def _again(self, attempt: int, what: str, count: int, need: int, missing: Iterable[int], ledger: Ledger) -> None:
        missing = set(missing)
        self._note(f"round {self._number}: {what} of {count} sites, {need} are needed, asking again: {self._names(missing)}")
        self._rest(attempt)
        self.greet([i for i in missing if i in self._knock_at], ledger)

    def _small(
        self, kind: Kind, who: Iterable[int], heads: Mapping[int, Head], shared: PyTree, own: Mapping[int, PyTree],
        answer: type, ledger: Ledger, out: set[int],
    ) -> dict[int, PyTree]:  # fmt: skip
        """What sites answer to a question about masks. Those that decline, or will not reveal, go into `out`."""
        asked = {i: heads[i]._replace(kind=kind, weight=0.0, last=int(ledger.last[i])) for i in sorted(who)}
        packed = {i: letters.pack(head, letters.body(own.get(i, ()))) for i, head in asked.items()}
        body = letters.body(shared)
        ledger.bytes_down[...] += sum(len(letter) + len(body) for letter in packed.values())
        answers, found = self._ask(packed, body, self.rules.deadline, ledger, aside=False), {}
        for i, head in asked.items():
            if i not in answers:
                self._away(i)
                self._note(f"{self.job.names[i]}: silent in round {head.round}, {kind.name}")
                continue
            try:
                reply = answers[i].open(self._most)
                came, content = open_reply(reply, head, self._most)
                if came.kind == Kind.DECLINED:
                    out.add(i)
                elif came.kind == Kind.UNKNOWN:
                    self._away(i)
                    self._knock_at[i] = 0.0
                else:
                    require(came.kind == Kind.MASKING, "reply.kind", came.kind, f"is no answer to {kind.name}")
                    found[i] = letters.unbody(content, self._blank[answer], kind.name)
                    ledger.bytes_up[...] += len(reply)
                    ledger.bytes_aside[...] -= len(reply)
            except FedtierError as error:
                self._cards.pop(i, None)  # a site that was set up anew has another
                self._refuse(i, ledger, f"round {head.round}, {kind.name}: {first_line(error)}")
                if kind == Kind.UNMASK:
                    out.add(i)
        return found
