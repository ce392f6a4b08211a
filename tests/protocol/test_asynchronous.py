"""Without rounds: every answer counts once, whatever is killed, and a simulation of the recorded order gives the same bits."""

import numpy as np
import pytest

from fedtier.protocol import Limits, letters
from fedtier.protocol.letters import Head, Kind
from fedtier.protocol.memory import BEFORE
from fedtier.protocol.signatures import opened

from ..small_runs import mostly_slow
from .async_house import CLIENTS, ROUNDS, Clock, House, Killed, slowness
from .sealed import House as Seals


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in ("contact", "asynchronous"):
        monkeypatch.setattr(f"fedtier.protocol.{module}.time", made)
    return made


def check_books(house, ledger):
    """Nobody is twice in a step, no task counts twice, and the counters are those of the order."""
    order = ledger.arrivals.order
    began = np.arange(ROUNDS)[:, None] - order.staleness
    assert (np.diff(order.ids, axis=1) > 0).all() and (order.staleness >= 0).all()
    came = [(i, b) for i, b in zip(order.ids[order.arrived].tolist(), began[order.arrived].tolist(), strict=True)]
    assert len({*came}) == len(came)
    np.testing.assert_array_equal(np.bincount([i for i, _ in came], minlength=CLIENTS), ledger.counted)
    newest = [max((b for who, b in came if who == i), default=BEFORE) for i in range(CLIENTS)]
    assert ledger.last.tolist() == newest  # which the next letter tells the site
    assert ledger.local_steps == order.steps[order.arrived].sum()
    ages = np.zeros(CLIENTS, int)
    np.add.at(ages, order.ids[order.arrived], order.staleness[order.arrived])
    np.testing.assert_array_equal(ages, ledger.arrivals.stale)


def same_bits(house, ledger, engines=("compiled",)):
    """The promise: a simulation of the recorded order ends with the federation's model."""
    order = ledger.arrivals.order
    found = house.model(ledger)
    assert np.isfinite(found).all() and np.abs(found - np.asarray(house.x)).max() > 0.1
    for engine in engines:
        np.testing.assert_array_equal(house.replayed(order, engine), found)


@pytest.mark.parametrize("name", mostly_slow(["fedbuff", "fedasync"], "fedbuff"))
@pytest.mark.checked
def test_answers_count_as_they_come_and_the_recorded_order_gives_the_same_bits(tmp_path, clock, name):
    house = House(tmp_path, clock, name)
    ledger = house.live()
    order = ledger.arrivals.order
    check_books(house, ledger)
    same_bits(house, ledger, ("compiled", "messages"))
    assert ledger.counted[3] > ledger.counted[5] and order.staleness.max() >= 2  # the fast answer more often
    assert not ledger.refused.any() and not ledger.silent.any() and (np.diff(order.seconds) >= 0).all()
    assert len({(i, r) for i, r, steps in house.plays if steps}) == len([1 for _, _, steps in house.plays if steps])
    shifted = order._replace(staleness=np.zeros_like(order.staleness))
    assert not np.array_equal(house.replayed(shifted, "compiled"), house.model(ledger))  # staleness is part of the bits


def test_killed_again_and_again_no_answer_is_lost_or_counted_twice_and_the_order_still_gives_the_bits(tmp_path, clock):
    """The server dies after a number of answers that grows: also between the saving of one and the next letter."""
    house, lives = House(tmp_path, clock), 0
    while True:
        lives += 1
        try:
            ledger = house.live(waits=4 * lives) if lives % 2 else house.live(saves=len(house.saved) + lives)
            break
        except Killed:
            continue
    assert lives >= 4
    check_books(house, ledger)
    same_bits(house, ledger)
    tasks = [(i, r) for i, r, steps in house.plays if steps]
    assert len({*tasks}) == len(tasks)  # what was asked again was answered from memory


def test_an_answer_is_in_the_ledger_before_the_buffer_is_full_and_a_restarted_server_does_not_ask_for_it(tmp_path, clock):
    house = House(tmp_path, clock)
    with pytest.raises(Killed):
        house.live(saves=2)
    ledger, number = house.saved[-1]
    assert number == 0 and ledger.arrivals.seated == [3, 0] and ledger.counted.tolist() == [1, 0, 0, 1, 0, 0]
    with pytest.raises(Killed):
        house.live(waits=1)
    asked = {site for site, letter in house.post.sent}
    assert asked == {"site-1", "site-2", "site-4", "site-5"}
    ledger = house.live()
    assert ledger.arrivals.order.ids[0].tolist() == [0, 1, 3]
    same_bits(house, ledger)


@pytest.mark.slow
@pytest.mark.checked
def test_a_server_set_back_by_one_save_gets_the_same_answers_again(tmp_path, clock):
    """Its newest checkpoint is damaged: the answer since the one before comes again, also where it is some steps old, and the
    site was asked for its scores and has its next task since."""
    house = House(tmp_path, clock)
    for saves in (9, 20, 31):
        with pytest.raises(Killed):
            house.live(saves=saves, scores=True)
        with pytest.raises(Killed):
            house.live(waits=0, scores=True)
        house.saved.pop()
    ledger = house.live(scores=True)
    check_books(house, ledger)
    same_bits(house, ledger)
    refused = [line for line in house.lines if "refused" in line]
    assert all("scores after round" in line for line in refused)  # of a step that the sites know to be over, no answer
    assert len({(i, r) for i, r, steps in house.plays if steps}) > ROUNDS


@pytest.mark.slow
def test_a_silent_site_loses_its_task_costs_nobody_time_and_comes_back_after_a_hello(tmp_path, clock):
    house = House(tmp_path, clock)

    def takes(site, now):
        return None if site == "site-3" and 2.0 < now < 9.0 else slowness(site)

    ledger = house.live(takes, deadline=4.0)
    order = ledger.arrivals.order
    in_it = np.flatnonzero((order.ids == 3).any(axis=1))
    assert ledger.silent[3] == 1 and any(line.startswith("site-3: silent in round") for line in house.lines)
    gap = np.diff(order.seconds[in_it]).max()
    assert gap > 6.0 and in_it[-1] == ROUNDS - 1 and order.seconds[-1] < 30  # away, then back; the others went on
    assert np.diff(order.seconds).max() < 4.0
    check_books(house, ledger)
    same_bits(house, ledger)


def test_an_answer_older_than_allowed_is_refused_by_name_and_the_site_gets_a_new_task(tmp_path, clock):
    house = House(tmp_path, clock)
    ledger = house.live(max_staleness=1)
    order = ledger.arrivals.order
    assert order.staleness.max() == 1 and ledger.refused[5] >= 1
    assert any(line.startswith("site-5: refused: round 0: staleness") and "at most 1" in line for line in house.lines)
    asked = [letters.unpack(letter, len(letter))[0].round for site, letter in house.post.sent if site == "site-5"]
    assert len(asked) > 1 and asked == sorted({*asked})
    assert all(len(ledger.arrivals.broadcasts) <= CLIENTS for ledger, _ in house.saved)
    check_books(house, ledger)
    same_bits(house, ledger)


@pytest.mark.slow
def test_numbers_that_cannot_count_take_a_seat_as_a_lost_answer(tmp_path, clock):
    house = House(tmp_path, clock)

    def spoil(site, reply):
        head, body, _ = letters.unpack(reply, len(reply))
        if site != "site-0" or head.kind != Kind.REPLY or head.round > 4:
            return reply
        broken = np.frombuffer(body, np.uint8).copy()
        broken[-4:] = np.frombuffer(np.float32(np.nan).tobytes(), np.uint8)
        return letters.pack(head, broken.tobytes())

    ledger = house.live(change=spoil)
    order = ledger.arrivals.order
    lost = (order.ids == 0) & ~order.arrived
    assert lost.sum() == ledger.refused[0] >= 1 and ledger.counted[0] >= 1
    check_books(house, ledger)
    same_bits(house, ledger)


@pytest.mark.slow
@pytest.mark.checked
def test_where_nobody_is_at_work_any_more_a_step_is_made_of_fewer_but_not_below_the_quorum(tmp_path, clock):
    """All six would have to be in the buffer; one is away, and one declines half of its tasks."""
    house = House(tmp_path, clock, buffer=6)
    plain = house.site
    house.site = lambda i: plain(i, limits=Limits(participation=0.5 if i == 1 else 1.0))
    ledger = house.live(lambda site, now: None if site == "site-5" else slowness(site), deadline=9.0)
    order = ledger.arrivals.order
    assert not order.arrived[:, 5].any() and order.arrived[:, [0, 2, 3, 4]].all() and ledger.silent[5] >= 1
    assert ledger.declined[1] + ledger.counted[1] == ROUNDS and 0 < ledger.declined[1] < ROUNDS
    same_bits(house, ledger)
    strict = House(tmp_path / "strict", clock, buffer=6)
    with pytest.raises(Killed):
        strict.live(lambda site, now: None if site == "site-5" else slowness(site), quorum=1.0, deadline=9.0, waits=300)
    assert strict.saved[-1][1] == 0 and len(strict.saved[-1][0].arrivals.seated) == 5


def test_tasks_are_signed_and_an_answer_under_another_seal_does_not_count(tmp_path, clock):
    house = House(tmp_path, clock, seals=Seals(tmp_path / "keys"))
    old = {}

    def replay(site, reply):
        """One site answers with its first reply ever, over and over."""
        head = letters.unpack(opened(reply), len(reply))[0]
        if site == "site-3" and head.kind == Kind.REPLY:
            return old.setdefault(site, reply)
        return reply

    ledger = house.live(change=replay)
    assert ledger.counted[3] == 1 and ledger.refused[3] >= 3 and ledger.counted[0] > 3
    assert isinstance(letters.unpack(opened(house.post.sent[-1][1]), 10_000)[0], Head)
    check_books(house, ledger)
    same_bits(house, ledger)
