"""A site under privacy: one answer a round, whatever it is asked in between, and no steps beyond its budget."""

import jax
import numpy as np

from fedtier.federation import Plan
from fedtier.protocol import Memory, Site, letters
from fedtier.protocol.letters import Kind, Letters, Private, Scores

from . import toy


def site(**budget) -> Site:
    def prepare(brief, client):
        def score(state, x, turn, weight):
            return Scores(0.0, 0.0, 0.0), ()

        return toy.player(client)._replace(guarded=True, score=score, **budget)

    return Site("site-0", prepare, Memory(None))


def asked(one: Site, rounds: int, steps: int = 2) -> list[bytes]:
    """The letters of rounds that a server plays with this site, all of which are answered."""
    kept: list[bytes] = []

    def ask(sent: Letters, seconds: float) -> dict[str, bytes]:
        kept.append(sent.whole("site-0"))
        return {"site-0": one.answer(kept[-1])}

    plan = Plan(*(np.full((rounds, 1), value, kind) for value, kind in ((0, np.int32), (steps, np.int32), (True, bool))))
    made = toy.driver(plan, 1, ask)
    ledger = made.start(toy.first(1))
    for number in range(rounds):
        ledger, _ = made.play_round(ledger, number)
    return [letter for letter in kept if letters.about(letter)["kind"] == "ROUND"]


def changed(letter: bytes, **head) -> bytes:
    old, own, shared = letters.unpack(letter, len(letter))
    return letters.pack(old._replace(**head), own) + shared


def test_what_was_answered_stays_answered_though_scores_are_asked_for_in_between():
    one = site()
    letter = asked(one, 2)[-1]
    other = changed(letter, steps=1)
    assert b"another question in this round" in one.answer(other)
    head = letters.unpack(letter, len(letter))[0]._replace(kind=Kind.SCORE, round=2, last=0)  # round 1 did not count, it says
    own = letters.body(Private((), jax.random.key(0, impl="threefry2x32")))
    assert letters.about(one.answer(letters.pack(head, own)))["kind"] == "DECLINED"
    assert b"another question in this round" in one.answer(other)


def test_steps_that_the_budget_of_rows_does_not_pay_for_are_refused_whoever_asks():
    one = site(paid=(2, 3))
    letter = asked(one, 2)[-1]
    fresh = site(paid=(2, 1))
    asked(fresh, 1)
    assert b"pays for 1 in round 1" in fresh.answer(changed(letter, last=0))
    assert b"pays for 0 in round 2" in one.answer(changed(letter, round=2, last=1))
    assert letters.about(one.answer(changed(letter, round=2, last=1, steps=0)))["kind"] == "REPLY"
