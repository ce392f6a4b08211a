"""What a site may not send: each is refused with the site's name, counted, and the run goes on without it."""

import resource
import subprocess
import sys

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.protocol import letters, loopback
from fedtier.protocol.letters import HEAD, Head, Kind
from fedtier.protocol.validation import Reply, read_reply, reply_limit, too_large

from . import toy

CLIENTS, ROUNDS, BAD = 3, 8, 1


def changed(reply: bytes, **fields) -> bytes:
    head, own, _ = letters.unpack(reply, len(reply))
    return letters.pack(head._replace(**fields), own)


def with_body(reply: bytes, up) -> bytes:
    return letters.pack(letters.unpack(reply, len(reply))[0], letters.body(up))


def scaled(reply: bytes, factor: float) -> bytes:
    own = letters.unpack(reply, len(reply))[1]
    up = letters.unbody(own, toy.Up(np.zeros(toy.N, np.float32)), "reply")
    return with_body(reply, toy.Up(np.asarray(up.delta * np.float32(factor))))


FAULTS = {
    "NaN": lambda r: with_body(r, toy.Up(np.full(toy.N, np.nan, np.float32))),
    "an infinite number": lambda r: with_body(r, toy.Up(np.full(toy.N, np.inf, np.float32))),
    "a wrong shape": lambda r: with_body(r, toy.Up(np.ones(toy.N + 1, np.float32))),
    "a wrong type": lambda r: with_body(r, toy.Up(np.ones(toy.N, np.float64))),
    "a wrong name": lambda r: with_body(r, toy.X(np.ones(toy.N, np.float32))),
    "a wrong round": lambda r: changed(r, round=letters.unpack(r, len(r))[0].round + 1),
    "another client": lambda r: changed(r, client=0),
    "another run": lambda r: changed(r, run=b"s" * 16),
    "more steps than asked for": lambda r: changed(r, steps=1 << 20),
    "a million times too large": lambda r: scaled(r, 1e6),
    "100 MB long": lambda r: r + bytes(100_000_000),
    "100 MB in the body": lambda r: letters.pack(letters.unpack(r, len(r))[0], bytes(100_000_000)),
    "garbage": lambda r: np.random.default_rng(len(r)).bytes(len(r)),
    "nothing": lambda r: b"",
    "cut short": lambda r: r[:-1],
    "something after the end": lambda r: r + b"x",
    "a kind for servers": lambda r: changed(r, kind=Kind.ROUND),
    "a memory of before the run": lambda r: changed(r, kind=Kind.FORGOT, last=-7),
    "no kind at all": lambda r: changed(r, kind=99),
    "words that lie about their length": lambda r: HEAD.pack(letters.MAGIC, 12, 1 << 31, b"r" * 16, 0, 1, 1, -1, 0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_is_refused_by_name_and_counted_and_the_run_goes_on_without_it(fault):
    plan = Plan(
        np.tile(np.arange(CLIENTS, dtype=np.int32), (ROUNDS, 1)),
        np.ones((ROUNDS, CLIENTS), np.int32),
        np.ones((ROUNDS, CLIENTS), bool),
    )
    sites, lines, rounds = [toy.site(i) for i in range(CLIENTS)], [], [0]

    def bad(letter):
        reply = sites[BAD].answer(letter)
        kind = letters.unpack(letter, len(letter))[0].kind
        if kind != Kind.ROUND:
            return reply
        rounds[0] += 1
        return FAULTS[fault](reply) if rounds[0] in (1, 4) else reply  # the first round has no history to judge by

    answers = {s.name: s.answer for s in sites} | {sites[BAD].name: bad}
    driver = toy.driver(plan, CLIENTS, loopback(answers), note=lines.append)
    ledger, counted = driver.start(toy.first(CLIENTS)), []
    for number in range(ROUNDS):
        ledger, _ = driver.play_round(ledger, number)
        counted.append({i for i in range(CLIENTS) if ledger.last[i] == number})
    assert [BAD in came for came in counted] == [number not in (0, 3) for number in range(ROUNDS)]
    assert ledger.refused.tolist() == [0, 2, 0] and not ledger.silent.any()
    assert sum(line.startswith("site-1: refused: round ") for line in lines) == 2
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, CLIENTS, counted), rtol=1e-5)


def test_a_site_that_says_hello_with_nonsense_is_refused_and_the_others_start():
    plan = toy.bumpy(2, CLIENTS)
    sites, lines = [toy.site(i) for i in range(CLIENTS)], []
    answers = {s.name: s.answer for s in sites} | {"site-1": lambda letter: b"hello yourself"}
    driver = toy.driver(plan, CLIENTS, loopback(answers), start=2, note=lines.append)
    ledger = driver.start(toy.first(CLIENTS))
    assert ledger.rows.tolist() == [10, 0, 30] and "site-1: refused: its hello" in lines[0]


def test_sizes_are_judged_by_the_median_of_what_counted_and_zeros_say_nothing():
    def reply(norm):
        return Reply(UP, 1, 100, norm)

    none = np.full(64, np.nan)
    assert too_large({0: reply(0.0), 1: reply(0.0)}, none, 10.0) == {}
    assert set(too_large({0: reply(1.0), 1: reply(11.0), 2: reply(2.0)}, none, 5.0)) == {1}
    assert set(too_large({0: reply(1.0), 1: reply(10.0)}, none, 5.0)) == {1}  # of two the smaller is the measure
    history = np.concatenate([none[3:], [100.0, 200.0, 300.0]])
    assert too_large({0: reply(900.0)}, history, 5.0) == {} and set(too_large({0: reply(1100.0)}, history, 5.0)) == {0}


ASKED = Head(Kind.ROUND, b"r" * 16, 3, 1, 2, 1, 1.0)
UP = toy.Up(np.arange(toy.N, dtype=np.float32))
GOOD = letters.pack(ASKED._replace(kind=Kind.REPLY), letters.body(UP))


def damaged(rng: np.random.Generator) -> bytes:
    """A letter gone wrong: flipped bytes, cuts, insertions, lying lengths and offsets, or noise from the start."""
    how = rng.integers(6)
    if how == 0:
        return rng.bytes(int(rng.integers(0, 400)))
    letter = bytearray(GOOD)
    if how == 1:
        return bytes(letter[: rng.integers(len(letter))])
    if how == 2:  # a header that lies about its length
        at = HEAD.size
        letter[at : at + 8] = int(rng.integers(1 << 62)).to_bytes(8, "little")
    elif how == 3:  # digits of shapes and offsets
        digits = [k for k in range(HEAD.size + 8, len(letter) - 12) if 48 <= letter[k] <= 57]
        for k in rng.choice(digits, min(3, len(digits))):
            letter[k] = int(rng.integers(48, 58))
    elif how == 4:
        at = int(rng.integers(len(letter)))
        letter[at:at] = rng.bytes(int(rng.integers(1, 50)))
    for k in rng.integers(0, len(letter), rng.integers(1, 6)):
        letter[k] = int(rng.integers(256))
    return bytes(letter)


def refused(letter: bytes) -> bool:
    """True when refused; what is let in must fit. Any other exception fails the test."""
    try:
        answer = read_reply(letter, ASKED, UP)
    except FedtierError:
        return True
    if not isinstance(answer, Head):
        assert answer.up.delta.shape == (toy.N,) and answer.up.delta.dtype == np.float32 and np.isfinite(answer.up.delta).all()
        assert 0 <= answer.steps <= ASKED.steps
    return False


def fuzz(count: int, seed: int) -> float:
    """The share of damaged letters that are refused; the others changed only numbers that nobody can check."""
    rng = np.random.default_rng(seed)
    return float(np.mean([refused(damaged(rng)) for _ in range(count)]))


@pytest.mark.slow
def test_thousands_of_damaged_letters_are_refused_or_fit():
    assert not refused(GOOD)
    assert 0.9 < fuzz(10_000, 0) < 1.0


@pytest.mark.slow
@pytest.mark.checked
def test_two_hundred_thousand_damaged_letters_are_refused_or_fit():
    assert 0.9 < fuzz(200_000, 1) < 1.0


@pytest.mark.slow
def test_a_site_answers_thousands_of_damaged_letters_with_refusals_and_stays_sound():
    site = toy.site(1)
    plan = Plan(np.ones((2, 1), np.int32), np.ones((2, 1), np.int32), np.ones((2, 1), bool))
    sent = []

    def answer(letter):
        sent.append(letter)
        return site.answer(letter)

    driver = toy.driver(plan, 2, loopback({"site-1": answer}), start=1)
    ledger, _ = driver.play_round(driver.start(toy.first(2)), 0)
    rng = np.random.default_rng(1)
    for _ in range(5000):
        letter = bytearray(sent[int(rng.integers(len(sent)))])
        for k in rng.integers(4, len(letter), rng.integers(1, 6)):
            letter[k] = int(rng.integers(256))
        reply = site.answer(bytes(letter[: rng.integers(len(letter) + 1)]))
        head, _, _ = letters.unpack(reply, 1 << 20)
        assert head.kind in (Kind.REFUSED, Kind.UNKNOWN, Kind.FORGOT, Kind.DECLINED, Kind.WELCOME, Kind.REPLY)
    after, _ = driver.play_round(ledger, 1)
    assert after.last[1] == 1


MEMORY = """
import resource, sys, numpy as np
from tests.protocol.test_validation import ASKED, GOOD, UP, HEAD, letters, refused
limit = int(sys.argv[1])
huge = [bytes(200_000_000), GOOD + bytes(200_000_000), letters.pack(ASKED._replace(kind=12), bytes(200_000_000))]
lying = []
for size in (1 << 40, 1 << 62, 10**9):
    text = b'{"delta":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (size // 4, size)
    lying.append(letters.pack(ASKED._replace(kind=12), len(text).to_bytes(8, "little") + text + bytes(12)))
    lying.append(letters.pack(ASKED._replace(kind=12), size.to_bytes(8, "little") + text))
assert not refused(GOOD)
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + limit, now + limit))
assert all(refused(letter) for letter in huge + lying), "let in"
print("refused")
"""


def test_no_letter_makes_the_reader_allocate_more_than_its_limit():
    """With 4 MB of address space left, letters of 200 MB and headers that promise terabytes are refused all the same."""
    assert resource.getpagesize() and reply_limit(UP) < 2000
    done = subprocess.run([sys.executable, "-c", MEMORY, "4000000"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "refused", done.stderr
