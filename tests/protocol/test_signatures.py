"""Only the server speaks for the server: whatever else is sent to a site changes nothing there and learns nothing."""

import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.protocol import Memory, Record, Scores, Site, letters, loopback, signatures, verify_record
from fedtier.protocol.letters import Head, Kind, Letters, Private
from fedtier.protocol.signatures import SEAL, SERVER, ServerSeal, issue, read_identity
from fedtier.protocol.version import greeting

from . import toy
from .sealed import House

CLIENTS, ROUNDS, RUN, VICTIM = 2, 3, b"r" * 16, "site-0"
KEY = jax.random.key(7, impl="threefry2x32")
PLAN = Plan(
    np.tile(np.arange(CLIENTS, dtype=np.int32), (ROUNDS, 1)),
    np.full((ROUNDS, CLIENTS), 2, np.int32),
    np.ones((ROUNDS, CLIENTS), bool),
)
GOOD = {Kind.HELLO: Kind.WELCOME, Kind.ROUND: Kind.REPLY, Kind.LOST: Kind.DECLINED, Kind.SCORE: Kind.SCORES}


def open_site(house: House, i: int, folder: Path) -> Site:
    def prepare(brief, client):
        return toy.player(client)._replace(score=lambda state, x, turn, weight: (Scores(1.0, 0.5, 0.5), x))

    memory = Memory(folder)
    return Site(f"site-{i}", prepare, memory, seal=house.site(i), record=Record(folder))


class Federation:
    """Two sealed sites after two of three rounds, and every letter that the first of them got so far."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.house, self.lines, self.got = folder, House(folder / "keys"), [], []
        self.sites = [open_site(self.house, i, folder / f"state-{i}") for i in range(CLIENTS)]
        self.record = Record(folder)
        straight = loopback({site.name: site.answer for site in self.sites})

        def ask(sent, seconds):
            self.got.append(sent.whole(VICTIM) if VICTIM in sent.own else b"")
            return straight(sent, seconds)

        self.driver = toy.driver(PLAN, CLIENTS, ask, note=self.lines.append, seal=self.house.server(), record=self.record)
        self.ledger = self.driver.start(toy.first(CLIENTS))
        for number in range(2):
            self.ledger, _ = self.driver.play_round(self.ledger, number)

    def content(self, kind: Kind, /, **changes) -> tuple[bytes, bytes]:
        """(own part, shared part) of a letter that the server might send to the first site now."""
        head = Head(kind, RUN, 2, 0, 2, 1, 1.0)
        if kind == Kind.HELLO:
            head = head._replace(**({"round": 0} | changes))
            return letters.pack(head, greeting("a brief")), letters.body(np.zeros(toy.N, np.float32))
        x = np.asarray(self.ledger.server.x)
        shared = letters.body(x) if kind == Kind.SCORE else letters.body(toy.X(x))
        return letters.pack(head._replace(**changes), letters.body(Private((), KEY))), shared

    def sealed(self, own: bytes, shared: bytes, site: str = VICTIM, seal: ServerSeal | None = None) -> bytes:
        return (seal or self.house.server()).seal(Letters(shared, {site: own}))[0].whole(site)

    def memory(self) -> dict[str, bytes]:
        """All that the first site remembers; its record, which grows, is not part of that."""
        files = (path for path in (self.folder / "state-0").rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files if not path.name.startswith("record")}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return Federation(tmp_path_factory.mktemp("federation"))


def as_server(identity: signatures.Identity) -> ServerSeal:
    """A party that signs as the server would, with its own key and passport."""
    return ServerSeal(identity._replace(party=SERVER))


def flipped(letter: bytes, at: int) -> bytes:
    return letter[:at] + bytes([letter[at] ^ 1]) + letter[at + 1 :]


def moved(f: Federation, kind: Kind, /, **changes) -> bytes:
    """The server's seal of one letter before another one."""
    own, shared = f.content(kind)
    other, _ = f.content(kind, **changes)
    assert own != other and len(own) == len(other)
    return f.sealed(own, shared)[: SEAL.size] + other + shared


FORGERIES = {
    "no seal": lambda f, k: b"".join(f.content(k)),
    "a wrong signature": lambda f, k: flipped(f.sealed(*f.content(k)), SEAL.size - 1),
    "a wrong passport": lambda f, k: flipped(f.sealed(*f.content(k)), 50),
    "a passport made longer": lambda f, k: flipped(f.sealed(*f.content(k)), 8 + 32 + 5),
    "another site's key": lambda f, k: f.sealed(*f.content(k), seal=as_server(f.house.identity("site-1"))),
    "its own key": lambda f, k: f.sealed(*f.content(k), seal=as_server(f.house.identity(VICTIM))),
    "another site's key under the server's passport": lambda f, k: f.sealed(
        *f.content(k), seal=as_server(f.house.identity("site-1")._replace(passport=f.house.identity(SERVER).passport))
    ),
    "another authority": lambda f, k: f.sealed(*f.content(k), seal=House(f.folder / "elsewhere").server()),
    "a letter for another site": lambda f, k: f.sealed(*f.content(k), site="site-1"),
    "another run": lambda f, k: moved(f, k, run=b"s" * 16),
    "another round": lambda f, k: moved(f, k, round=2_000_000_000),
    "another client": lambda f, k: moved(f, k, client=1),
    "another kind": lambda f, k: moved(f, k, kind=Kind.ROUND if k != Kind.ROUND else Kind.SCORE),
    "other steps": lambda f, k: moved(f, k, steps=1),
    "another shared part": lambda f, k: f.sealed(*f.content(k))[:-1] + b"\x55",
    "bytes moved from one part to the other": lambda f, k: _own_longer(f.sealed(*f.content(k))),
    "the last byte gone": lambda f, k: f.sealed(*f.content(k))[:-1],
    "half of it gone": lambda f, k: f.sealed(*f.content(k))[: (SEAL.size + len(b"".join(f.content(k)))) // 2],
    "nothing but the seal": lambda f, k: f.sealed(*f.content(k))[: SEAL.size],
    "half a seal": lambda f, k: f.sealed(*f.content(k))[: SEAL.size // 2],
    "nothing": lambda f, k: b"",
    "one byte more": lambda f, k: f.sealed(*f.content(k)) + b"x",
}


def _own_longer(letter: bytes) -> bytes:
    own = int.from_bytes(letter[4:8], "little")
    return letter[:4] + (own + 1).to_bytes(4, "little") + letter[8:]


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.name)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_letter_changes_nothing_and_its_answer_is_the_same_words_at_every_site(federation, forgery, kind):
    before, lines = federation.memory(), federation.sites[0]._record.refusals
    answer = federation.sites[0].answer(FORGERIES[forgery](federation, kind))
    assert answer == letters.UNSIGNED and b"site-0" not in answer and b"brief" not in answer
    assert federation.memory() == before
    assert federation.sites[0]._record.refusals == lines + 1


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.name)
def test_a_letter_under_a_passport_that_has_run_out_is_forged(federation, kind, monkeypatch):
    letter, before = federation.sealed(*federation.content(kind)), federation.memory()
    now = time.time()
    monkeypatch.setattr(signatures.time, "time", lambda: now + 2 * 86_400)
    assert federation.sites[0].answer(letter) == letters.UNSIGNED and federation.memory() == before


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.name)
def test_the_same_letter_signed_by_the_server_is_answered(tmp_path, kind):
    """What the forgeries above would have been worth."""
    f = Federation(tmp_path)
    sealed, hashes = f.house.server().seal(Letters(f.content(kind)[1], {VICTIM: f.content(kind)[0]}))
    reply = f.house.server().open(f.sites[0].answer(sealed.whole(VICTIM)), VICTIM, hashes[VICTIM])
    assert letters.unpack(reply, 1 << 20)[0].kind == GOOD[kind]


def test_letters_of_the_past_played_again_change_nothing_at_the_site_nor_in_the_run(tmp_path):
    f = Federation(tmp_path)
    kinds = [letters.unpack(signatures.opened(letter), 1 << 20)[0].kind for letter in f.got]
    assert kinds == [Kind.HELLO, Kind.ROUND, Kind.ROUND]
    pile = [*f.got, *(f.sealed(*f.content(kind, round=0, last=-1)) for kind in (Kind.LOST, Kind.SCORE))]
    before = f.memory()
    for letter in pile:
        f.sites[0].answer(letter)
        assert f.memory() == before
    ledger, _ = f.driver.play_round(f.ledger, 2)
    before = f.memory()
    for letter in pile:
        f.sites[0].answer(letter)
    assert f.memory() == before
    assert ledger.counted.tolist() == [3, 3] and not ledger.refused.any()
    np.testing.assert_allclose(ledger.server.x, toy.reference(PLAN, CLIENTS, [{0, 1}] * 3), rtol=1e-6)


def test_a_second_hello_cannot_change_the_brief_of_a_known_run_not_even_after_a_restart(tmp_path):
    f = Federation(tmp_path)
    own, shared = f.content(Kind.HELLO)
    other = letters.pack(letters.unpack(own, len(own))[0], greeting("b brief"))
    for restarted in (False, True):
        if restarted:
            f.sites[0].close()
            f.sites[0] = open_site(f.house, 0, tmp_path / "state-0")
        before = f.memory()
        sealed, hashes = f.house.server().seal(Letters(shared, {VICTIM: other}))
        reply = f.house.server().open(f.sites[0].answer(sealed.whole(VICTIM)), VICTIM, hashes[VICTIM])
        head, said, _ = letters.unpack(reply, 1 << 20)
        assert head.kind == Kind.REFUSED and b"is not what this site was told of this run at first" in said
        assert f.memory() == before


def forged_reply(how, f, sent, site, replies):
    """A reply of the first site as `how` spoils it; `replies` are those it gave before."""
    genuine = f.sites[0].answer(sent.whole(site))
    content = signatures.opened(genuine)
    if how == "no seal":
        return content
    if how == "another site's signature":
        return f.house.site(1).seal(content, f.house.site(0).open(sent.whole(site))[1])
    if how == "an answer to an earlier letter":
        return replies[-1]
    if how == "an answer to an earlier letter under a new head":
        head, _, _ = letters.unpack(content, 1 << 20)
        _, old, _ = letters.unpack(signatures.opened(replies[-1]), 1 << 20)
        return replies[-1][: SEAL.size] + letters.pack(head, old)
    if how == "changed numbers":
        return flipped(genuine, len(genuine) - 1)
    return letters.UNSIGNED


@pytest.mark.parametrize(
    "how",
    [
        "no seal",
        "another site's signature",
        "an answer to an earlier letter",
        "an answer to an earlier letter under a new head",
        "changed numbers",
        "the words for a forger",
    ],
)
def test_a_reply_that_the_site_did_not_sign_for_this_letter_does_not_count_and_is_named(tmp_path, how):
    f, replies = Federation(tmp_path), []
    straight = loopback({site.name: site.answer for site in f.sites})

    def ask(sent, seconds):
        came = straight(sent, seconds)
        kind = letters.unpack(signatures.opened(sent.own[VICTIM]), 1 << 20)[0].kind if VICTIM in sent.own else None
        if kind == Kind.ROUND and replies:
            came[VICTIM] = forged_reply(how, f, sent, VICTIM, replies)
        replies.append(came.get(VICTIM))
        return came

    driver = toy.driver(PLAN, CLIENTS, ask, note=f.lines.append, seal=f.house.server())
    driver.greet(range(CLIENTS), f.ledger)
    ledger, _ = driver.play_round(f.ledger, 2)
    assert ledger.refused.tolist() == [1, 0] and ledger.counted.tolist() == [2, 3]
    assert f.lines[-1].startswith("site-0: refused: round 2: ")
    np.testing.assert_allclose(ledger.server.x, toy.reference(PLAN, CLIENTS, [{0, 1}, {0, 1}, {1}]), rtol=1e-6)


def test_sealed_rounds_give_the_models_of_unsealed_ones_and_both_records_hold_the_same_letters(tmp_path):
    f = Federation(tmp_path)
    ledger, _ = f.driver.play_round(f.ledger, 2)
    np.testing.assert_allclose(ledger.server.x, toy.reference(PLAN, CLIENTS, [{0, 1}] * 3), rtol=1e-6)
    here, there = (lines(folder) for folder in (tmp_path, tmp_path / "state-0"))
    ours = [(line["sha256"], {"in": "out", "out": "in"}[line["way"]]) for line in here if line["who"] == VICTIM]
    assert ours == [(line["sha256"], line["way"]) for line in there] and len(ours) == 2 * (1 + ROUNDS)
    assert verify_record(tmp_path).letters == 2 * CLIENTS * (1 + ROUNDS)


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]


def test_an_identity_that_is_damaged_forged_or_past_its_end_is_refused_in_words(tmp_path):
    house, path = House(tmp_path), tmp_path / "key.json"
    good = json.loads(issue(house.secret, VICTIM, int(time.time()) + 100))
    for change, words in (
        ({"party": "site-1"}, "is not signed as it must be"),
        ({"key": issue_key(house)}, "holds a key that is not the one in its passport"),
        ({"key": "00"}, "cannot be read"),
        ({"passport": json.loads(issue(house.secret, VICTIM, int(time.time()) - 1))["passport"]}, "ran out on"),
        ({"passport": good["passport"][:-2]}, "cannot be read"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(FedtierError, match=words):
            read_identity(path)
    with pytest.raises(FedtierError, match="is not there"):
        read_identity(tmp_path / "nowhere.json")
    path.write_text(json.dumps(good))
    assert read_identity(path).party == VICTIM
    with pytest.raises(FedtierError, match="is not the server's"):
        ServerSeal(read_identity(path))


def issue_key(house: House) -> str:
    return json.loads(issue(house.secret, VICTIM, 1))["key"]


def test_engines_in_one_process_load_no_cryptography():
    program = (
        "import sys; from tests.protocol import toy; from fedtier.protocol import loopback; plan = toy.bumpy(1, 1);"
        "site = toy.site(0); driver = toy.driver(plan, 1, loopback({'site-0': site.answer}));"
        "driver.play_round(driver.start(toy.first(1)), 0); import fedtier.engines.messages;"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
