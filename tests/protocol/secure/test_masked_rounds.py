"""Rounds over letters whose replies the server never sees: the model of plain rounds, whoever vanishes, dies or cheats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.methods.method import Contribution
from fedtier.protocol import Masked, MaskedDriver, Masking, Memory, Rules, Site, loopback
from fedtier.protocol import letters as wire
from fedtier.protocol.letters import Kind, Letters
from fedtier.protocol.secure.messages import Unmask, Words, blank

from ...small_runs import mostly_slow
from .. import toy
from ..sealed import House

CLIENTS = 5
NAMES = tuple(f"site-{i}" for i in range(CLIENTS))
HOW = Masking(NAMES, CLIENTS, 3, 32.0).check()
TOTAL = Contribution(toy.SHAPE, *(jax.ShapeDtypeStruct((), np.float32),) * 2)
STEP = HOW.grid.step


def numbers(up, weight):
    return np.asarray([*up.delta, 1.0, 1.0], np.float64)


def site(i, folder=None, how=HOW, guarded=False, **more):
    def prepare(brief, client):
        return toy.player(client)._replace(masked=Masked(how, numbers), guarded=guarded)

    return Site(f"site-{i}", prepare, Memory(folder), **more)


def everyone(rounds):
    ids = np.tile(np.arange(CLIENTS, dtype=np.int32), (rounds, 1))
    return Plan(ids, np.full(ids.shape, 2, np.int32), np.ones(ids.shape, bool))


def driver(plan, ask, how=HOW, seal=None, **rules):
    up = Words(np.zeros(toy.N + 2, np.uint32))
    job = toy.job(plan, CLIENTS)._replace(up=up)
    notes = []
    made = MaskedDriver(
        job, ask, Rules(**{"start": CLIENTS, "deadline": 0.2} | rules), how, TOTAL, note=notes.append, seal=seal
    )
    return made, notes


def kind_of(letter):
    return Kind(wire.unpack(letter, len(letter))[0].kind)


def played(plan, ask, **more):
    made, notes = driver(plan, ask, **more)
    ledger = made.start(toy.first(CLIENTS))
    for number in range(len(plan.ids)):
        ledger, _ = made.play_round(ledger, number)
    return np.asarray(ledger.server.x), ledger, notes


def losing(members, at, who, number):
    """A loopback in which letters of one kind to some sites get no answer in one round."""

    def ask(letters: Letters, seconds: float):
        replies = {}
        for name in letters.own:
            letter = letters.whole(name)
            head = wire.unpack(letter, len(letter))[0]
            if not (head.round == number and int(name[-1]) in who and Kind(head.kind) == at):
                replies[name] = members[name].answer(letter)
        return replies

    return ask


def house(folder=None, **more):
    return {f"site-{i}": site(i, None if folder is None else folder / str(i), **more) for i in range(CLIENTS)}


def test_masked_rounds_give_the_model_of_plain_rounds_to_the_quantisation_step():
    plan = everyone(2)
    x, ledger, _ = played(plan, loopback({name: one.answer for name, one in house().items()}))
    wanted = toy.reference(plan, CLIENTS, [set(range(CLIENTS))] * 2)
    assert np.abs(x - wanted).max() <= 2 * STEP + 1e-5
    assert ledger.counted.tolist() == [2] * CLIENTS and ledger.refused.sum() == 0


@pytest.mark.parametrize("at", mostly_slow([Kind.CARD, Kind.SHARES, Kind.ROUND, Kind.UNMASK], Kind.ROUND))
def test_sites_that_vanish_at_any_stage_do_not_spoil_the_round(at):
    """Before keys, after keys, after shares; who vanishes after its masked reply still counts."""
    plan, gone, everybody = everyone(1), {1, 4}, set(range(CLIENTS))
    x, ledger, _ = played(plan, losing(house(), at, gone, 0))
    came = everybody if at == Kind.UNMASK else everybody - gone
    assert {i for i in everybody if ledger.counted[i]} == came
    assert np.abs(x - toy.reference(plan, CLIENTS, [came])).max() <= STEP + 1e-5


@pytest.mark.slow
def test_below_the_threshold_the_round_waits_and_then_ends_as_if_nothing_had_happened():
    plan, members, asked = everyone(3), house(), []

    def ask(letters: Letters, seconds: float):
        replies = {}
        for name in letters.own:
            kind = kind_of(letters.whole(name))
            asked.append(kind)
            if kind == Kind.UNMASK and asked.count(Kind.UNMASK) < 9 and name != "site-0":
                continue
            replies[name] = members[name].answer(letters.whole(name))
        return replies

    x, _, notes = played(plan, ask, deadline=0.01)
    assert np.abs(x - toy.reference(plan, CLIENTS, [set(range(CLIENTS))] * 3)).max() <= 3 * STEP + 1e-5
    assert any("shares of 1 sites, 3 are needed" in line for line in notes)


def reopened(members, folder):
    for one in members.values():
        one.close()
    return house(folder)


@pytest.mark.slow
def test_a_server_that_dies_while_it_unmasks_plays_the_round_again_with_the_same_sum(tmp_path):
    plan, members = everyone(2), house(tmp_path)
    ask = loopback({name: one.answer for name, one in members.items()})
    first, _ = driver(plan, ask)
    ledger = first.start(toy.first(CLIENTS))
    done, _ = first.play_round(ledger, 0)
    members = reopened(members, tmp_path)  # the sites are started again, too
    second, _ = driver(plan, loopback({name: one.answer for name, one in members.items()}))
    again, _ = second.play_round(second.start(toy.first(CLIENTS)), 0)
    np.testing.assert_array_equal(np.asarray(again.server.x), np.asarray(done.server.x))


def test_a_round_whose_sum_died_with_the_server_is_lost_aloud_and_never_opened_twice(tmp_path):
    """All have revealed for the sum of five; a sum of four would be the fifth's reply."""
    plan, members = everyone(2), house(tmp_path)
    first, _ = driver(plan, loopback({name: one.answer for name, one in members.items()}))
    first.play_round(first.start(toy.first(CLIENTS)), 0)
    four = {name: one.answer for name, one in members.items() if name != "site-4"}
    second, notes = driver(plan, loopback(four), start=4)
    ledger = second.start(toy.first(CLIENTS))
    after, _ = second.play_round(ledger, 0)
    np.testing.assert_array_equal(np.asarray(after.server.x), np.zeros(toy.N))
    assert any("round 0: lost" in line for line in notes) and any("masks nothing more" in line for line in notes)
    after, _ = second.play_round(after, 1)
    assert after.counted.tolist() == [1, 1, 1, 1, 0]
    wanted = toy.reference(plan, CLIENTS, [set(), {0, 1, 2, 3}])
    assert np.abs(np.asarray(after.server.x) - wanted).max() <= STEP + 1e-5


def test_a_site_reveals_for_one_list_of_the_living_whatever_it_is_asked(tmp_path):
    """The rule at the site: one share of each peer a round. Who asks for the other is refused, also after a restart."""
    plan, members, kept = everyone(1), house(tmp_path), {}

    def ask(letters: Letters, seconds: float):
        for name in letters.own:
            letter = letters.whole(name)
            kept[name, kind_of(letter)] = letter
        return {name: members[name].answer(letters.whole(name)) for name in letters.own}

    made, _ = driver(plan, ask)
    made.play_round(made.start(toy.first(CLIENTS)), 0)
    letter = kept["site-0", Kind.UNMASK]
    answer = members["site-0"].answer(letter)
    assert kind_of(answer) == Kind.MASKING
    head, own, shared = wire.unpack(letter, len(letter))
    asked = wire.unbody(shared, blank(Unmask, CLIENTS), "unmask")
    other = asked._replace(alive=np.asarray([True, True, True, True, False]))
    trick = wire.pack(head, own) + wire.body(other)
    members = reopened(members, tmp_path)
    refused = members["site-0"].answer(trick)
    assert kind_of(refused) == Kind.REFUSED and b"another sum of this round" in refused
    assert members["site-0"].answer(letter) == answer  # the first list, as often as it is asked
    remade = members["site-0"].answer(kept["site-0", Kind.ROUND])
    assert kind_of(remade) == Kind.REPLY


def test_a_site_reveals_for_nothing_that_it_has_not_masked_for():
    """Site 0 has dealt and then been silent; the server asks it to reveal as if it had come through."""
    members, kept = house(), {}

    def ask(letters: Letters, seconds: float):
        for name in letters.own:
            kept[name, kind_of(letters.whole(name))] = letters.whole(name)
        silent = {("site-0", Kind.ROUND)}
        heard = [name for name in letters.own if (name, kind_of(letters.whole(name))) not in silent]
        return {name: members[name].answer(letters.whole(name)) for name in heard}

    made, _ = driver(everyone(1), ask)
    made.play_round(made.start(toy.first(CLIENTS)), 0)
    letter = kept["site-1", Kind.UNMASK]
    head, own, shared = wire.unpack(letter, len(letter))
    asked = wire.unbody(shared, blank(Unmask, CLIENTS), "unmask")
    assert asked.alive.tolist() == [False, True, True, True, True]
    trick = wire.pack(head._replace(client=0), own) + wire.body(asked._replace(alive=np.ones(CLIENTS, bool)))
    assert b"is not of the sum for which this site has masked last" in members["site-0"].answer(trick)


def test_a_reply_outside_the_range_is_lost_by_name_and_not_waited_for():
    how = HOW._replace(bound=6.1)
    members = house(how=how)
    _, ledger, notes = played(everyone(1), loopback({n: one.answer for n, one in members.items()}), how=how)
    assert any("outside the range of 6.1" in line for line in notes)
    assert ledger.counted.tolist() == [1, 1, 1, 1, 0]


@pytest.mark.slow
def test_a_guarded_site_answers_one_question_a_round_and_draws_what_the_server_cannot(tmp_path):
    members, kept = house(tmp_path, guarded=True), {}

    def ask(letters: Letters, seconds: float):
        for name in letters.own:
            kept[name, kind_of(letters.whole(name))] = letters.whole(name)
        return {name: members[name].answer(letters.whole(name)) for name in letters.own}

    made, _ = driver(everyone(2), ask)
    ledger, _ = made.play_round(made.start(toy.first(CLIENTS)), 0)
    made.play_round(ledger, 1)
    letter = kept["site-1", Kind.ROUND]
    head, own, shared = wire.unpack(letter, len(letter))
    changed = wire.pack(head._replace(steps=1), own) + shared
    assert b"another question in this round" in members["site-1"].answer(changed)
    key = members["site-1"]._key_of(jax.random.key(0, impl="threefry2x32"), "asked", members["site-1"]._player)
    other = members["site-2"]._key_of(jax.random.key(0, impl="threefry2x32"), "asked", members["site-2"]._player)
    assert not jnp.array_equal(jax.random.key_data(key), jax.random.key_data(other))


@pytest.mark.slow
def test_under_seals_cards_and_mask_keys_are_signed_and_who_has_no_passport_has_no_part(tmp_path):
    authority = House(tmp_path / "keys")
    members = {f"site-{i}": site(i, seal=authority.site(i)) for i in range(CLIENTS)}
    plan = everyone(1)
    x, *_ = played(plan, loopback({n: one.answer for n, one in members.items()}), seal=authority.server())
    assert np.abs(x - toy.reference(plan, CLIENTS, [set(range(CLIENTS))])).max() <= STEP + 1e-5
    members = {f"site-{i}": site(i, seal=authority.site(i)) for i in range(CLIENTS)}
    unsigned = members | {"site-3": site(3)}
    made, notes = driver(plan, loopback({n: one.answer for n, one in unsigned.items()}), seal=authority.server(), start=4)
    after, _ = made.play_round(made.start(toy.first(CLIENTS)), 0)
    assert after.counted.tolist() == [1, 1, 1, 0, 1] and any("site-3: refused" in line for line in notes)


def test_sums_over_too_few_are_refused_before_the_first_round():
    plan = everyone(2)
    plan.arrived[1, :3] = False
    with pytest.raises(FedtierError, match=r"run\.dropouts"):
        driver(plan, loopback({}))
