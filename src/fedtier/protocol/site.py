"""A site: answers letters, one at a time, and remembers before it answers.

`Site.answer` is all that a runtime calls. It never raises: what is wrong with a letter, or goes wrong here, is the answer.
What a site does in a round is a `Player`, made from the server's brief at the site itself; what it is willing to do are
its `Limits`. With a seal, a letter that the server did not sign for this site is answered by words that are the same at every
site, and nothing else happens.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from ..errors import FedtierError, require
from ..methods.method import Briefed
from ..storage.checksums import checksum
from . import letters
from .letters import HEAD, MOST_WORDS, SLACK, Head, Kind, NotFinite, Private, Scores, Welcome
from .limits import NO_LIMITS, Limits, Pace
from .memory import BEFORE, Answered, Memo, Memory, Pending
from .player import Player, Prepare, arrays, blank, check_paid, key_to_compile, read_round, seated, shapes_of, turn_of
from .record import Record, digest
from .secure.at_site import Masked, check_unrevealed, masking_answer
from .secure.derive import derived
from .secure.fixed_point import OutOfRange
from .secure.masking import Member
from .secure.messages import MaskedShared
from .settling import Instead, settled
from .signatures import SEAL, SERVER, SiteSeal
from .version import OURS, numbers, read_greeting

MOST_FIRST = 1 << 32  # bytes of a hello at a site without a limit
MASKING = (Kind.CARD, Kind.SHARES, Kind.UNMASK)
TRIAL_STEPS = 16  # made once at the start, to learn how long a step takes


class Site:
    """One site over many letters; `memory` without a folder forgets everything with the process."""

    def __init__(
        self, name: str, prepare: Prepare, memory: Memory, limits: Limits = NO_LIMITS, *,
        seal: SiteSeal | None = None, record: Record | None = None,
    ) -> None:  # fmt: skip
        self.name, self.limits = name, limits.check()
        self._prepare, self._memory, self._seal, self._record = prepare, memory, seal, record
        self._lock = threading.RLock()
        self._run: bytes = b""
        self._client, self._brief = -1, ""
        self._player: Player | None = None
        self._memo: Memo | None = None
        self._pace = Pace()

    def answer(self, letter: bytes) -> bytes:
        """The reply to any letter: also to garbage. Runtimes may call it from several threads."""
        with self._lock:
            if self._seal is None:
                return self._reply(letter)
            try:
                most = SEAL.size + self._most_first
                require(len(letter) <= most, "letter", f"{len(letter)} bytes", f"must not be longer than {most} bytes")
                content, asked = self._seal.open(letter)
            except FedtierError:
                self._note_refused(letter)
                return letters.UNSIGNED
            reply = self._reply(content)
            sealed = self._seal.seal(reply, asked)
            try:
                self._note(letter, content, sealed, reply)
            except FedtierError as error:  # what cannot be recorded does not leave
                return self._seal.seal(self._refused(content, error), asked)
            return sealed

    def _reply(self, letter: bytes) -> bytes:
        try:
            return self.respond(letter)
        except Exception as error:  # also a method's or a user's solver's: the server must hear of it
            return self._refused(letter, error)

    def _refused(self, letter: bytes, error: Exception) -> bytes:
        said = str(error).splitlines()[0] if isinstance(error, FedtierError) else f"{type(error).__name__}: {error}"
        return letters.words(_refusal(letter), f"{self.name}: {said}")

    def _note(self, letter: bytes, content: bytes, sealed: bytes, reply: bytes) -> None:
        if self._record is not None:
            came, went = (letters.about(part) | digest(whole) for part, whole in ((content, letter), (reply, sealed)))
            self._record.add(("in", {"who": SERVER} | came), ("out", {"who": SERVER} | went))

    def _note_refused(self, letter: bytes) -> None:
        if self._record is not None:
            with suppress(FedtierError):  # a full disk is told with the next letter that may be answered
                self._record.refuse(letter)

    def close(self) -> None:
        """No more letters: another process may take over what this one remembers."""
        self._memory.close()

    def respond(self, letter: bytes) -> bytes:
        """`answer` where a fault should stop the program: in one process, under a debugger."""
        with self._lock:
            head, own, shared = letters.unpack(letter, self._limit(letter))
            try:
                return self._answer(head, own, shared)
            except Instead as other:
                return letters.words(head._replace(kind=other.kind, last=other.last, weight=0.0), other.text)

    def _limit(self, letter: bytes) -> int:
        """Bytes of the longest letter of this kind that makes sense now."""
        if self._player is None or letter[4:5] == bytes([Kind.HELLO]):
            return self._most_first  # a hello brings x_0, whose size only its brief tells
        return HEAD.size + MOST_WORDS + SLACK + 2 * letters.body_size(self._player.x) + letters.body_size(self._player.shared)

    @property
    def _most_first(self) -> int:
        """Bytes of the longest letter of all: a brief and a model of the largest size that this site takes."""
        most = self.limits.max_model_numbers
        return MOST_FIRST if most is None else HEAD.size + MOST_WORDS + SLACK + 8 * most

    def _answer(self, head: Head, own: bytes, shared: bytes) -> bytes:
        if head.kind == Kind.HELLO:
            return self._hello(head, own, shared)
        require(head.kind in (Kind.ROUND, Kind.LOST, Kind.SCORE, *MASKING), "letter", head.kind, "is not for a site")
        player = self._recall(head)
        require(head.client == self._client, "client", head.client, f"must be {self._client}, as in the hello")
        if head.kind == Kind.SCORE:
            return self._score(head, own, shared, player)
        if head.kind in MASKING:
            return self._masking(head, own, shared, player)
        if head.kind == Kind.LOST or self._declines(head):
            return letters.pack(head._replace(kind=Kind.DECLINED))
        return self._round(head, own, shared, player)

    def _hello(self, head: Head, own: bytes, shared: bytes) -> bytes:
        require(len(own) <= MOST_WORDS, "brief", f"{len(own)} bytes", f"must not be longer than {MOST_WORDS} bytes")
        text = read_greeting(own)
        self._check_brief(head, text)
        if self._run != head.run or self._player is None:
            player = self._prepare(text, head.client)
            self._check_sizes(player, len(shared))
            brought = arrays(letters.unbody(shared, letters.first(player.x, player.shown), "x"))
            x, shown = brought if isinstance(brought, letters.First) else (brought, ())
            letters.finite(shown, "shown")
            player = seated(player, shown, self._memory.place(head.run))
            memo = self._memory.load(head.run, shapes_of(player.init, x)) or Memo(BEFORE, player.init(x), None)
            told = checksum(f"{head.client} {text}".encode())
            self._require_same(memo.brief in ("", told), text)
            memo = memo._replace(brief=told)
            self._warm(player, memo.kept)
            self._memory.save_shown(head.run, shown)
            self._memory.save_brief(head.run, head.client, text)
            self._memory.save(head.run, memo)
            self._run, self._client, self._brief, self._player, self._memo = head.run, head.client, text, player, memo
        counts = Welcome(np.int32(self._player.rows), np.int32(self._player.held), np.asarray(numbers(OURS), np.int32))
        return letters.pack(head._replace(kind=Kind.WELCOME, last=self._known().round), letters.body(counts))

    def _check_brief(self, head: Head, text: str) -> None:
        """A run is what its first hello said: a later one may repeat it, never change it."""
        here = self._run == head.run and self._player is not None
        known = (self._client, self._brief) if here else self._memory.load_brief(head.run)
        self._require_same(known is None or known == (head.client, text), text)

    def _require_same(self, same: bool, text: str) -> None:
        rule = "is not what this site was told of this run at first"
        require(same, "brief", f"{len(text)} characters", rule, "start another run")

    def _check_sizes(self, player: Player, sent: int) -> None:
        """Before anything of the model's size is made here: it is within this site's limit, and came with the hello."""
        most = math.inf if self.limits.max_model_numbers is None else self.limits.max_model_numbers
        parts = {"x": player.x, "shared": player.shared, "own": player.own, "offer": player.offer, "shown": player.shown}
        parts["state"] = shapes_of(player.init, player.x)
        for name, shapes in parts.items():
            count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
            require(count <= most, name, f"{count} numbers", f"this site takes at most {most}", "see max_model_numbers")
        whole = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(player.x))
        require(whole <= sent, "x", f"{sent} bytes", f"must come whole: the model has {whole} bytes")

    def _recall(self, head: Head) -> Player:
        """The run of this letter: in memory, or from disk after a restart."""
        if self._run == head.run and self._player is not None:
            return self._player
        brief = self._memory.load_brief(head.run)
        if brief is None:
            raise Instead(Kind.UNKNOWN)
        player = self._prepare(brief[1], brief[0])
        memo = self._memory.load(head.run, shapes_of(player.init, player.x))
        shown = self._memory.load_shown(head.run, player.shown)
        if memo is None or shown is None:
            raise Instead(Kind.UNKNOWN)
        player = seated(player, arrays(shown), self._memory.place(head.run))
        if self.limits.seconds is not None:
            self._warm(player, memo.kept)
        self._run, self._client, self._brief, self._player, self._memo = head.run, *brief, player, memo
        return player

    def _declines(self, head: Head) -> bool:
        """Drawn from the run and the round, so that a repeated letter gets the same answer."""
        if self.limits.participation >= 1:
            return False
        draw = np.random.default_rng([*head.run, *self.name.encode(), head.round & 0xFFFFFFFF]).random()
        return bool(draw >= self.limits.participation)

    def _round(self, head: Head, own: bytes, shared: bytes, player: Player) -> bytes:
        letter = checksum(letters.pack(head, own), shared)
        again = self._answered(letter)
        if again is not None:
            return again
        memo = settled(self._known(), head, stale=player.stale)
        if memo.pending is not None and memo.pending.letter in ("", letter):
            return memo.pending.reply  # asked again: the answer is the same, and the state has moved once
        private, told, masks = read_round(own, shared, player)
        message = arrays(told)
        letters.finite(message, "shared")
        question = self._question(head, memo, private, told, player)
        require(head.steps >= 0, "steps", head.steps, "must be at least 0")
        check_paid(head, player)
        steps = self._allowed(head.steps)
        began = time.perf_counter()
        turn, group = turn_of(head, steps, self._key_of(private.key, question, player)), ""
        try:
            state, up = player.play(arrays(memo.kept), message, arrays(private.own), turn, head.weight)
            letters.finite(up, "the reply")
            if masks is not None:
                up, group = self._masked(head, up, masks, question, player)
        except (NotFinite, OutOfRange) as error:  # the same letter would give the same again: this round goes on without it
            raise Instead(Kind.SPOILT, head.last, str(error).splitlines()[0]) from None
        if steps:
            self._pace.learn(steps, time.perf_counter() - began)
        reply = letters.pack(head._replace(kind=Kind.REPLY, steps=steps, weight=0.0), letters.body(up))
        memo = memo._replace(pending=Pending(head.round, state, reply, letter, question, group))
        self._memory.save(head.run, memo)
        self._memo = memo
        return reply

    def _question(self, head: Head, memo: Memo, private: Private, told: PyTree, player: Player) -> str:
        """What is asked, apart from who masks with whom; a guarded site answers one question a round, for each answer more
        would say more."""
        if player.masked is None and not player.guarded:
            return ""
        asked = checksum(letters.pack(head._replace(last=0)), letters.body(private), letters.body(told))
        pending = memo.pending
        other = pending is not None and pending.round == head.round and pending.question != asked
        rule = "this site has answered another question in this round, and answers one"
        require(not (player.guarded and other), "round", head.round, rule)
        if player.masked is not None:
            check_unrevealed(memo, head.round)
        return asked

    def _key_of(self, key: Key[Array, ""], question: str, player: Player) -> Key[Array, ""]:
        """The key of a turn's draws: the server's, or one that only this site can know."""
        if not player.guarded:
            return key
        words = np.frombuffer(derived(self._memory.secret, b"draws", self._run, question.encode(), size=8), np.uint32)
        return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")

    def _member(self, how: Masked) -> Member:
        identity = None if self._seal is None else self._seal.identity
        return Member(how.settings, self._run, self._client, self._memory.secret, identity)

    def _masked(self, head: Head, up: PyTree, masks: MaskedShared, question: str, player: Player) -> tuple[PyTree, str]:
        """(the reply behind masks, with whom)."""
        assert player.masked is not None
        member, how = self._member(player.masked), player.masked
        values = how.numbers(up, head.weight)
        words = member.words(values, len(values) - how.rest, member.noise_seed(question.encode()))
        masked, group = member.masked(head.round, words, masks.keys, masks.signed)
        return masked, group.hex()

    def _masking(self, head: Head, own: bytes, shared: bytes, player: Player) -> bytes:
        if player.masked is None:
            raise FedtierError("letter", head.kind, "the sums of this run are not masked")
        if head.kind == Kind.SHARES and self._declines(head):
            return letters.pack(head._replace(kind=Kind.DECLINED))
        before = self._known()
        reply, memo = masking_answer(self._member(player.masked), head, own, shared, before)
        if memo is not before:
            self._memory.save(head.run, memo)
            self._memo = memo
        return reply

    def _score(self, head: Head, own: bytes, shared: bytes, player: Player) -> bytes:
        if player.score is None:
            raise FedtierError("letter", head.kind, "this site measures nothing")
        letter = checksum(letters.pack(head, own), shared)
        again = self._answered(letter)
        if again is not None:
            return again
        before, memo = self._known(), settled(self._known(), head, stale=player.stale)
        if player.guarded and memo.pending is None and memo.round == before.round:
            memo = memo._replace(pending=before.pending)  # what was answered stays answered, though it did not count
        private = letters.unbody(own, Private(() if player.offer is None else player.offer, key_to_compile()), "own")
        x = arrays(letters.unbody(shared, player.x, "x")) if shared else None
        turn, place = turn_of(head, head.steps, private.key), self._memory.place(head.run)
        state = arrays(memo.kept)
        told = state if player.offer is None else Briefed(state, arrays(private.own))
        scores, y = player.score(told, x, turn, head.weight)
        if player.keep is not None and place is not None:
            player.keep(place, turn, x, y)
        reply = letters.pack(head._replace(kind=Kind.DECLINED))
        if self.limits.share_scores and not player.guarded and player.masked is None:
            numbers = Scores(*(np.float32(value) for value in scores))
            reply = letters.pack(head._replace(kind=Kind.SCORES), letters.body(numbers))
        memo = memo._replace(past=(*memo.past, Answered(head.round, letter, reply)))
        self._memory.save(head.run, memo)
        self._memo = memo
        return reply

    def _answered(self, letter: str) -> bytes | None:
        """The reply to a letter of the last two rounds that comes again, as from a server that had to go back a generation."""
        return next((one.reply for one in self._known().past if one.letter == letter), None)

    def settled(self, last: int) -> PyTree:
        """The state after round `last`, the latest that counted: what `pending` comes to at the end of a run."""
        memo = self._known()
        pending = memo.pending
        return pending.state if pending is not None and pending.round == last else memo.kept

    def _known(self) -> Memo:
        assert self._memo is not None
        return self._memo

    def _allowed(self, steps: int) -> int:
        if self.limits.max_steps is not None:
            steps = min(steps, self.limits.max_steps)
        return steps if self.limits.seconds is None else self._pace.fit(self.limits.seconds, steps)

    def _warm(self, player: Player, state: PyTree) -> None:
        """Compiles before the first round, and times a few steps where time is limited. Changes nothing."""
        shared, own = blank(player.shared), blank(player.own)
        head = Head(Kind.ROUND, bytes(16), 0, 0, 0, BEFORE, 1.0)
        for steps in (0, 0, TRIAL_STEPS) if self.limits.seconds is not None else (0,):
            began = time.perf_counter()
            jax.block_until_ready(player.play(arrays(state), shared, own, turn_of(head, steps, key_to_compile()), 1.0))
            self._pace.learn(steps, time.perf_counter() - began)


def _refusal(letter: bytes) -> Head:
    """The head of a refusal: that of the letter as far as it has one, so that the server knows what is refused."""
    try:
        return letters.unpack(letter, len(letter))[0]._replace(kind=Kind.REFUSED, weight=0.0)
    except FedtierError:
        return Head(Kind.REFUSED, bytes(letters.RUN_BYTES), 0, 0, 0, BEFORE, 0.0)
