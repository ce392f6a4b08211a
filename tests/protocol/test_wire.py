"""The driver and its sites: exactly once per round and client, whatever is late, lost, repeated or restarted."""

import random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.deploy.rows import specs as row_specs
from fedtier.federation import Plan
from fedtier.protocol import Driver, Interrupted, Limits, Memory, Rules, Site, drive, letters, loopback
from fedtier.protocol.letters import Head, Kind
from fedtier.protocol.version import OURS, numbers

from ..small_runs import mostly_slow
from . import toy

CLIENTS, ROUNDS = 4, 12


def counted_rounds(driver, ledger, rounds, first=0):
    """Plays, and notes whose reply counted in each round."""
    counted = []
    for number in range(first, rounds):
        ledger, _ = driver.play_round(ledger, number)
        counted.append({i for i in range(len(ledger.last)) if ledger.last[i] == number})
    return ledger, counted


def planned(plan):
    return [set(ids[ok].tolist()) for ids, ok in zip(plan.ids, plan.arrived, strict=True)]


def test_undisturbed_the_driver_follows_the_plan_and_the_reference():
    plan = toy.bumpy(ROUNDS, CLIENTS)
    sites = [toy.site(i) for i in range(CLIENTS)]
    driver = toy.driver(plan, CLIENTS, loopback({s.name: s.answer for s in sites}))
    ledger, counted = counted_rounds(driver, driver.start(toy.first(CLIENTS)), ROUNDS)
    assert counted == planned(plan)
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, CLIENTS, counted), rtol=1e-6)
    assert ledger.rows.tolist() == [10, 20, 30, 40] and not ledger.refused.any() and not ledger.silent.any()


class Chaos:
    """A transport that loses letters and replies, delivers both late or twice, and restarts sites around them."""

    def __init__(self, folder, seed):
        self.folder, self.dice = folder, random.Random(seed)
        self.sites = {f"site-{i}": self.open(i) for i in range(CLIENTS)}
        self.old_letters, self.old_replies = [], {}

    def open(self, i):
        return toy.site(i, self.folder / f"site-{i}")

    def restart(self, name):
        self.sites[name].close()  # as the end of a process would
        self.sites[name] = self.open(int(name[5:]))

    def ask(self, letters, seconds):
        replies = {}
        for name in letters.own:
            letter, fate = letters.whole(name), self.dice.random()
            if self.old_letters and self.dice.random() < 0.2:  # one from the past, again
                other, old = self.dice.choice(self.old_letters)
                self.sites[other].answer(old)
            self.old_letters.append((name, letter))
            if fate < 0.15:
                continue  # the letter is lost
            if fate < 0.25:
                self.restart(name)
            reply = self.sites[name].answer(letter)
            if fate > 0.93:
                self.restart(name)
            if self.dice.random() < 0.15:
                self.old_replies[name] = reply  # comes with the next letters, if at all
                continue
            replies[name] = self.old_replies.pop(name) if name in self.old_replies and fate > 0.5 else reply
        return replies


@pytest.mark.parametrize("seed", mostly_slow(range(12), 0, 1))
def test_whatever_is_lost_late_repeated_or_restarted_the_models_are_those_of_the_replies_that_counted(
    tmp_path, seed, monkeypatch
):
    monkeypatch.setattr("fedtier.protocol.contact.PAUSES", (0.0,))
    plan, chaos = toy.bumpy(30, CLIENTS, seed), Chaos(tmp_path, seed)
    driver = toy.driver(plan, CLIENTS, chaos.ask, deadline=1e-3)
    ledger, counted = counted_rounds(driver, driver.start(toy.first(CLIENTS)), 30)
    assert all(came <= may for came, may in zip(counted, planned(plan), strict=True))
    assert sum(map(len, counted)) < sum(map(len, planned(plan)))  # something was lost
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, CLIENTS, counted), rtol=1e-5)
    assert ledger.counted.sum() == sum(map(len, counted))


@pytest.mark.slow
def test_a_server_killed_at_any_moment_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """It dies before, between and after the asks of a round; sites restart at random too."""
    plan = toy.bumpy(ROUNDS, CLIENTS)

    class Killed(Exception):
        pass

    def life(folder, ledger, first, asks_left, saved):
        sites = {f"site-{i}": toy.site(i, folder / f"site-{i}") for i in range(CLIENTS)}
        straight = loopback({name: s.answer for name, s in sites.items()})

        def ask(letters, seconds):
            nonlocal asks_left
            asks_left -= 1
            if asks_left == 0:
                raise Killed
            replies = straight(letters, seconds)
            if asks_left == 1:
                raise Killed  # the sites have answered, nobody heard
            return replies

        def save(ledger, number):
            saved[:] = [(ledger.copied(), number)]

        try:
            return drive(toy.driver(plan, CLIENTS, ask), ledger, first, ROUNDS, save=save)
        finally:
            for s in sites.values():
                s.close()

    whole = life(tmp_path / "whole", toy.first(CLIENTS), 0, -1, [])
    for asks in range(2, 7):
        saved = [(toy.first(CLIENTS), 0)]
        for lives in range(100):
            try:
                end = life(tmp_path / f"killed-{asks}", saved[0][0], saved[0][1], asks + lives // 5, saved)
                break
            except Killed:
                pass
        assert lives >= 1
        assert np.array_equal(end.server.x, whole.server.x) and np.array_equal(end.last, whole.last)


def test_below_the_quorum_the_same_round_is_asked_again_and_nothing_advances(monkeypatch):
    monkeypatch.setattr("fedtier.protocol.contact.PAUSES", (0.0,))
    plan = toy.bumpy(1, CLIENTS)._replace(arrived=np.ones((1, CLIENTS - 1), bool))
    sites = {f"site-{i}": toy.site(i) for i in range(CLIENTS)}
    straight, asked, lines = loopback({n: s.answer for n, s in sites.items()}), [], []

    def ask(letters, seconds):
        asked.append(set(letters.own))
        return straight(letters, seconds) if len(asked) != 2 else {}  # all silent in the first attempt of the round

    driver = toy.driver(plan, CLIENTS, ask, quorum=1.0, note=lines.append)
    _, counted = counted_rounds(driver, driver.start(toy.first(CLIENTS)), 1)
    assert counted == planned(plan) and any("0 of 3 replies, asking again" in line for line in lines)


def test_cut_off_from_all_sites_the_run_waits_until_it_is_told_to_stop(monkeypatch):
    monkeypatch.setattr("fedtier.protocol.contact.PAUSES", (0.0,))
    plan, asked = toy.bumpy(3, CLIENTS), []

    def ask(letters, seconds):
        asked.append(1)
        return {}

    driver = toy.driver(plan, CLIENTS, ask, stopped=lambda: len(asked) > 20)
    with pytest.raises(Interrupted):
        driver.start(toy.first(CLIENTS))


class Clock:
    """Time that passes only when somebody sleeps."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_silent_site_costs_the_run_one_deadline_and_comes_back_after_a_hello(monkeypatch):
    clock = Clock()
    for module in ("contact", "driver"):
        monkeypatch.setattr(f"fedtier.protocol.{module}.time", clock)
    plan = toy.bumpy(40, CLIENTS)._replace(ids=np.tile(np.arange(CLIENTS, dtype=np.int32), (40, 1)))
    plan = plan._replace(steps=np.ones((40, CLIENTS), np.int32), arrived=np.ones((40, CLIENTS), bool))
    sites = {f"site-{i}": toy.site(i) for i in range(CLIENTS)}
    straight, state = loopback({n: s.answer for n, s in sites.items()}), {"gone": False, "slept": 0}

    def ask(letters, seconds):
        there = [n for n in letters.own if not (state["gone"] and n == "site-2")]
        if len(there) < len(letters.own):
            state["slept"] += seconds
            clock.sleep(seconds)
        clock.sleep(0.1)
        return straight(letters.only(there), seconds) if there else {}

    driver = toy.driver(plan, CLIENTS, ask, deadline=20.0)
    ledger, counted = counted_rounds(driver, driver.start(toy.first(CLIENTS)), 5)
    state["gone"] = True
    ledger, more = counted_rounds(driver, ledger, 20, 5)
    counted += more
    assert all(2 not in came for came in more) and state["slept"] <= 21  # one deadline, one knock
    assert int(ledger.silent[2]) == 15
    state["gone"] = False
    clock.sleep(20.0)
    ledger, more = counted_rounds(driver, ledger, 40, 20)
    counted += more
    assert all(2 in came for came in more)
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, CLIENTS, counted), rtol=1e-5)


def test_a_site_whose_disk_is_lost_says_so_and_starts_anew(tmp_path):
    plan = toy.bumpy(6, 2)._replace(ids=np.tile(np.arange(1, dtype=np.int32), (6, 1)))
    plan = plan._replace(steps=np.ones((6, 1), np.int32), arrived=np.ones((6, 1), bool))
    sites, lines = {f"site-{i}": toy.site(i) for i in range(2)}, []
    driver = toy.driver(plan, 2, loopback({n: lambda letter, n=n: sites[n].answer(letter) for n in sites}), note=lines.append)
    ledger = driver.start(toy.first(2))
    for number in range(3):
        ledger, _ = driver.play_round(ledger, number)
    sites["site-0"] = toy.site(0)  # nothing left of it
    ledger, _ = driver.play_round(ledger, 3)
    assert any("site-0: has lost its memory of rounds after -1" in line for line in lines)
    assert ledger.last[0] == 3


def test_a_repeated_letter_is_answered_from_memory_and_solved_once(tmp_path):
    plays = []

    def prepare(brief, client):
        player = toy.player(client)

        def counted(*args):
            plays.append(int(args[3].steps))
            return player.play(*args)

        return player._replace(play=counted)

    plan = toy.bumpy(1, 1)._replace(steps=np.full((1, 1), 3, np.int32), arrived=np.ones((1, 1), bool))
    letters = []

    def answer(letter):
        letters.append(letter)
        return site.answer(letter)

    site = Site("site-0", prepare, Memory(tmp_path))
    driver = toy.driver(plan, 1, loopback({"site-0": answer}))
    driver.play_round(driver.start(toy.first(1)), 0)
    first = site.answer(letters[-1])
    site.close()
    again = Site("site-0", prepare, Memory(tmp_path)).answer(letters[-1])  # another process
    assert first == again and plays.count(3) == 1


def test_limits_bind_where_they_are_set_and_a_repeated_letter_is_declined_alike():
    plan = toy.bumpy(60, 2)._replace(ids=np.tile(np.arange(2, dtype=np.int32), (60, 1)))
    plan = plan._replace(steps=np.full((60, 2), 3, np.int32), arrived=np.ones((60, 2), bool))
    sites = [toy.site(0, limits=Limits(max_steps=2)), toy.site(1, limits=Limits(participation=0.5))]
    again = []

    def twice(site):
        def answer(letter):
            one, two = site.answer(letter), site.answer(letter)
            again.append(one == two)
            return one

        return answer

    driver = toy.driver(plan, 2, loopback({s.name: twice(s) for s in sites}))
    ledger = driver.start(toy.first(2))
    for number in range(60):
        ledger, _ = driver.play_round(ledger, number)
    assert all(again)
    assert 15 <= ledger.declined[1] <= 45 and ledger.counted[1] == 60 - ledger.declined[1] and ledger.counted[0] == 60
    assert ledger.local_steps == 2 * 60 + 3 * ledger.counted[1]


class Weighted(NamedTuple):
    """A reply that is the weight its letter told."""

    told: Any


def weighted_method():
    def aggregate(server, owns, ups, specs, round):
        share = specs.weight * round.arrived
        return toy.X(jnp.stack([jnp.sum(share * ups.told), jnp.sum(share), jnp.sum(round.arrived)])), ()

    return toy.METHOD._replace(aggregate=aggregate)


def test_a_site_that_joins_in_the_middle_of_a_round_counts_with_the_weight_that_its_letter_told(monkeypatch):
    """Rows 10, 20, 30 with the last site absent at first: weights by the mean of the rows known when the letter was written."""
    monkeypatch.setattr("fedtier.protocol.contact.PAUSES", (0.0,))
    plan = Plan(np.arange(3, dtype=np.int32)[None], np.ones((1, 3), np.int32), np.ones((1, 3), bool))
    scalar = jax.ShapeDtypeStruct((), np.float32)

    def prepare(brief, client):
        def play(state, shared, own, turn, weight):
            return state, Weighted(np.float32(weight))

        return toy.player(client)._replace(play=play)

    sites = {f"site-{i}": Site(f"site-{i}", prepare, Memory(None)) for i in range(3)}
    straight, asked = loopback({name: site.answer for name, site in sites.items()}), [0]

    def ask(letters, seconds):
        asked[0] += 1
        there = [name for name in letters.own if name != "site-2" or asked[0] > 3]  # hello, knock, round, then it is here
        return straight(letters.only(there), seconds)

    job = toy.job(plan, 3)._replace(method=weighted_method(), up=Weighted(scalar), specs=lambda rows: row_specs(rows, None))
    driver = Driver(job, ask, Rules(start=2, quorum=1.0, deadline=1e-6))
    ledger, _ = driver.play_round(driver.start(toy.first(3)), 0)
    told = np.asarray([10 / 15, 20 / 15, 30 / 20])
    np.testing.assert_allclose(ledger.server.x, [np.sum(told**2), np.sum(told), 3], rtol=1e-6)


@pytest.mark.parametrize("how", ["NaN", "an infinite number", "an explosion"])
def test_numbers_that_cannot_count_are_lost_counted_and_named_and_even_a_full_quorum_goes_on(how):
    """The client would compute the same again: to wait for it would be to wait for ever."""
    spoilt = {"NaN": np.nan, "an infinite number": np.inf, "an explosion": 1e12}[how]
    plan = Plan(np.tile(np.arange(3, dtype=np.int32), (4, 1)), np.ones((4, 3), np.int32), np.ones((4, 3), bool))

    def prepare(brief, client):
        player = toy.player(client)

        def play(state, shared, own, turn, weight):
            state, up = player.play(state, shared, own, turn, weight)
            return state, toy.Up(np.full_like(up.delta, spoilt)) if client == 1 and int(turn.round) in (0, 2) else up

        return player._replace(play=play)

    sites, lines = {f"site-{i}": Site(f"site-{i}", prepare, Memory(None)) for i in range(3)}, []
    driver = toy.driver(plan, 3, loopback({n: s.answer for n, s in sites.items()}), quorum=1.0, note=lines.append)
    ledger, counted = counted_rounds(driver, driver.start(toy.first(3)), 4)
    assert counted == [{0, 2}, {0, 1, 2}, {0, 2}, {0, 1, 2}]
    assert ledger.refused.tolist() == [0, 2, 0] and not ledger.silent.any() and not ledger.declined.any()
    assert [line.split(": ")[:3] for line in lines if "site-1" in line] == [["site-1", "refused", f"round {k}"] for k in (0, 2)]
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, 3, counted), rtol=1e-5)


def test_where_all_numbers_are_spoilt_the_round_passes_without_replies_and_the_clients_stay_as_they_were():
    plan = Plan(np.tile(np.arange(2, dtype=np.int32), (2, 1)), np.ones((2, 2), np.int32), np.ones((2, 2), bool))

    def prepare(brief, client):
        player = toy.player(client)

        def play(state, shared, own, turn, weight):
            state, up = player.play(state, shared, own, turn, weight)
            return state, toy.Up(np.full_like(up.delta, np.nan)) if int(turn.round) == 0 else up

        return player._replace(play=play)

    sites = {f"site-{i}": Site(f"site-{i}", prepare, Memory(None)) for i in range(2)}
    driver = toy.driver(plan, 2, loopback({n: s.answer for n, s in sites.items()}), quorum=1.0)
    ledger = driver.start(toy.first(2))
    for number in range(2):
        ledger, _ = driver.play_round(ledger, number)
    assert ledger.refused.tolist() == [1, 1] and ledger.last.tolist() == [1, 1]
    np.testing.assert_allclose(ledger.server.x, toy.reference(plan, 2, [set(), {0, 1}]), rtol=1e-6)


FIRST, SECOND, THIRD = numbers(OURS)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (f"{FIRST}.{SECOND + 1}.{THIRD}", f"understands {FIRST}.{SECOND}.x"),
        (f"{FIRST + 1}.{SECOND}.{THIRD}", f"this site runs {OURS}"),
        ("new", "is no version of fedtier"),
        (None, "does not begin with a version"),
    ],
)
def test_a_site_refuses_a_server_whose_version_it_does_not_understand_and_says_its_own(theirs, words):
    own = b"a brief" if theirs is None else f"{theirs}\na brief".encode()
    hello = letters.pack(Head(Kind.HELLO, b"r" * 16, 0, 0, 0, -1, 0.0), own) + letters.body(np.zeros(toy.N, np.float32))
    reply, said, _ = letters.unpack(toy.site(0).answer(hello), 9999)
    assert reply.kind == Kind.REFUSED and words in said.decode()


def test_versions_that_differ_in_the_last_number_play_together_and_the_server_notes_it(monkeypatch):
    """Also within a run: the version of the server is no part of the brief."""
    plan, lines, sites = toy.bumpy(2, 2), [], {f"site-{i}": toy.site(i) for i in range(2)}
    ask, ledger = loopback({n: s.answer for n, s in sites.items()}), toy.first(2)
    there = f"{FIRST}.{SECOND}.{THIRD + 3}"
    monkeypatch.setattr("fedtier.protocol.site.OURS", there)
    for number, ours in enumerate((OURS, f"{FIRST}.{SECOND}.{THIRD + 7}")):
        monkeypatch.setattr("fedtier.protocol.version.OURS", ours)
        monkeypatch.setattr("fedtier.protocol.contact.OURS", ours)
        driver = toy.driver(plan, 2, ask, note=lines.append)
        ledger, _ = driver.play_round(driver.start(ledger), number)
        assert f"site-1: runs fedtier {there}, the server {ours}" in lines
    assert not ledger.refused.any()
