"""Masked sums are the sums, whoever vanishes when; below the threshold there is nothing; and a site's word is its own."""

import itertools

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.protocol.secure import shares
from fedtier.protocol.secure.derive import public_of
from fedtier.protocol.secure.fixed_point import Grid, as_words
from fedtier.protocol.secure.masking import pair_mask
from fedtier.protocol.secure.messages import Unmask
from fedtier.protocol.secure.unmasking import alive_of, boxes_for, group_keys, roster_of, unmasked

from ..sealed import House
from .house import RUN, members, play, settings


def values(clients, n=40):
    return np.random.default_rng(0).normal(size=(clients, n))


STAGES = ["before keys", "after keys", "after shares", "after the masked words"]


@pytest.mark.parametrize("stage", range(4), ids=STAGES)
def test_the_sum_is_that_of_who_came_through_whoever_vanishes(stage):
    how = settings()
    x, gone = values(5), {1, 4}
    lost = [gone if k == stage else set() for k in range(4)]
    words, alive = play(members(how), x, lost=lost)
    assert alive == ([0, 1, 2, 3, 4] if stage == 3 else [0, 2, 3])
    plain = np.rint(x[alive] * how.grid.scale).sum(axis=0) / how.grid.scale
    np.testing.assert_array_equal(how.grid.numbers(words), plain)
    assert np.abs(how.grid.numbers(words) - x[alive].sum(axis=0)).max() <= len(alive) * how.grid.step / 2


def test_one_vanishes_at_every_stage():
    how = settings(8, 5)
    x = values(8)
    words, alive = play(members(how), x, lost=[{0}, {3}, {5}, set()])
    assert alive == [1, 2, 4, 6, 7]
    plain = np.rint(x[alive] * how.grid.scale).sum(axis=0)
    np.testing.assert_array_equal(how.grid.numbers(words) * how.grid.scale, plain)


@pytest.mark.parametrize("stage", range(4), ids=STAGES)
def test_below_the_threshold_there_is_no_sum(stage):
    lost = [{0, 1, 2} if k == stage else set() for k in range(4)]
    with pytest.raises(FedtierError, match="threshold"):
        play(members(settings()), values(5), lost=lost)


def test_what_a_site_sends_looks_like_chance_and_differs_between_groups():
    how, x = settings(3, 2), np.zeros((3, 20_000))
    parties = members(how)
    roster = roster_of(3, {i: one.card() for i, one in enumerate(parties)})
    dealt = {i: one.deal(0, roster) for i, one in enumerate(parties)}
    keys, signed = group_keys(roster, dealt)
    zeros = parties[0].words(x[0], 0, b"")
    masked, _ = parties[0].masked(0, zeros, keys, signed)
    low = np.bincount(masked.words >> 28, minlength=16)
    assert np.all(np.abs(low - 1250) < 6 * np.sqrt(1250))
    fewer = parties[0].masked(0, zeros, *group_keys(roster, {i: dealt[i] for i in (0, 1)}))[0]
    assert np.mean(masked.words == fewer.words) < 0.001
    assert len({pair_mask(b"s" * 32, dealt[1].key.tobytes(), group) for group in (b"one", b"other")}) == 2
    again = parties[0].masked(0, zeros, keys, signed)[0]
    np.testing.assert_array_equal(again.words, masked.words)  # as often as it is asked
    other = parties[0].deal(1, roster)
    assert not np.array_equal(other.key, dealt[0].key)  # each round has keys of its own


def test_no_threshold_of_shares_no_secret():
    secret, seats = bytes(range(32)), range(5)
    dealt = shares.shares_of(secret, 3, seats, b"s" * 32)
    for some in itertools.combinations(seats, 3):
        assert shares.secret_of({k: dealt[k] for k in some}, 3) == secret
    with pytest.raises(FedtierError, match="3 are needed"):
        shares.secret_of({0: dealt[0], 1: dealt[1]}, 3)
    for some in itertools.combinations(seats, 2):
        try:
            assert shares.secret_of({k: dealt[k] for k in some}, 2) != secret, "two seats would be enough"
        except FedtierError as error:
            assert "belong together" in str(error)
    two = {0: dealt[0], 1: dealt[1]}  # with any third value some secret fits: they tell nothing
    third = (7).to_bytes(shares.SHARE, "little")
    try:
        assert shares.secret_of(two | {2: third}, 3) != secret
    except FedtierError as error:
        assert "belong together" in str(error)
    witnesses = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    assert all(pow(a, shares.PRIME - 1, shares.PRIME) == 1 for a in witnesses)


def test_wrong_shares_of_a_site_do_not_spoil_the_sum_and_too_many_are_named():
    how, parties = settings(), members(settings())
    x = values(5)
    roster = roster_of(5, {i: one.card() for i, one in enumerate(parties)})
    dealt = {i: one.deal(0, roster) for i, one in enumerate(parties)}
    keys, signed = group_keys(roster, dealt)
    masked = {i: parties[i].masked(0, parties[i].words(x[i], 0, b""), keys, signed)[0] for i in range(4)}
    asked = Unmask(keys, alive_of(5, masked))
    told = {i: parties[i].reveal(0, asked, boxes_for(i, dealt)) for i in range(4)}
    with pytest.raises(FedtierError, match="fewer than the threshold"):
        unmasked(how, RUN, 0, keys, dealt, {i: masked[i] for i in range(2)}, told)
    good = unmasked(how, RUN, 0, keys, dealt, masked, told)
    told[0].shares[...] ^= 1
    np.testing.assert_array_equal(unmasked(how, RUN, 0, keys, dealt, masked, told), good)
    told[1].shares[...] ^= 1
    with pytest.raises(FedtierError, match="wrong ones"):
        unmasked(how, RUN, 0, keys, dealt, masked, told)


def test_a_site_reveals_one_share_of_each_and_only_for_a_sum_that_is_one():
    parties = members(settings())
    roster = roster_of(5, {i: one.card() for i, one in enumerate(parties)})
    dealt = {i: one.deal(0, roster) for i, one in enumerate(parties)}
    keys, _ = group_keys(roster, dealt)
    alive = np.asarray([True, True, True, True, False])
    boxes = boxes_for(0, dealt)
    told = parties[0].reveal(0, Unmask(keys, alive), boxes)
    assert told.shares.shape == (5, shares.SHARE) and told.shares.any(axis=1).all()
    for bad, why in (([1, 1, 0, 0, 0], "threshold"), ([0, 1, 1, 1, 1], "told to be lost")):
        with pytest.raises(FedtierError, match=why):
            parties[0].reveal(0, Unmask(keys, np.asarray(bad, bool)), boxes)
    with pytest.raises(FedtierError, match="was not made for this site"):
        parties[1].reveal(0, Unmask(keys, alive), boxes)  # another's boxes
    with pytest.raises(FedtierError, match="was not made for this site and this round"):
        parties[0].reveal(1, Unmask(keys, alive), boxes)  # another round's


def test_keys_that_the_authority_does_not_vouch_for_are_refused(tmp_path):
    """A server that puts keys of its own in the place of a site's would read that site's shares, and its masks."""
    house, how = House(tmp_path), settings(3, 2)
    parties = members(how, [house.identity(name) for name in how.sites])
    cards = {i: one.card() for i, one in enumerate(parties)}
    roster = roster_of(3, cards)
    own = np.frombuffer(public_of(b"x" * 32), np.uint8)
    forged = roster_of(3, cards | {1: cards[1]._replace(key=own)})
    with pytest.raises(FedtierError, match="the word of site-1"):
        parties[0].deal(0, forged)
    with pytest.raises(FedtierError, match="passport"):
        parties[0].deal(0, roster_of(3, cards | {1: cards[2]}))  # one site in another's seat
    with pytest.raises(FedtierError, match="own key"):
        parties[1].deal(0, forged)
    dealt = {i: one.deal(0, roster) for i, one in enumerate(parties)}
    keys, signed = group_keys(roster, dealt | {1: dealt[1]._replace(key=own)})
    with pytest.raises(FedtierError, match="the word of site-1"):
        parties[0].masked(0, as_words(np.zeros(3, np.int64)), keys, signed)
    keys, signed = group_keys(roster, dealt)
    with pytest.raises(FedtierError, match="own mask key"):
        parties[0].masked(1, as_words(np.zeros(3, np.int64)), keys, signed)  # of another round


def test_numbers_outside_the_range_are_refused_by_name_and_sums_never_wrap():
    grid = Grid(2.0, 3).check()
    ends = sum(as_words(grid.whole_numbers(np.full(4, 2.0))) for _ in range(3))
    np.testing.assert_allclose(grid.numbers(ends), 6.0)
    np.testing.assert_allclose(grid.numbers(sum(as_words(grid.whole_numbers(np.full(4, -2.0))) for _ in range(3))), -6.0)
    for bad in (2.01, np.nan, np.inf):
        with pytest.raises(FedtierError, match="outside the range of 2"):
            grid.whole_numbers(np.asarray([0.0, bad]))
    with pytest.raises(FedtierError, match="too wide"):
        Grid(2.0**40, 3).check()
    assert grid.step == 2.0**-28


@pytest.mark.parametrize("threshold", [1, 2, 6])
def test_a_threshold_of_half_or_less_or_of_more_than_there_are_is_refused(threshold):
    with pytest.raises(FedtierError, match="threshold"):
        settings(5, threshold)


def test_a_roster_of_another_size_than_was_told_is_refused():
    parties = members(settings(5, 3))
    roster = roster_of(5, {i: parties[i].card() for i in (0, 1)})
    with pytest.raises(FedtierError, match="at least the threshold"):
        parties[0].deal(0, roster)
