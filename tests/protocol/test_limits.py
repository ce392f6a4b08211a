"""A site's pace: what fits into its time, also where the clock stuttered."""

import pytest

from fedtier.protocol.limits import Pace


def pace(*rounds):
    found = Pace()
    for steps, seconds in rounds:
        found.learn(steps, seconds)
    return found


def test_the_steps_that_fit_are_those_of_the_time_beside_the_overhead():
    found = pace((0, 3.0), (0, 0.5), (100, 1.5))  # the first round compiled
    assert found.fit(2.5, 1000) == 200
    assert found.fit(2.5, 150) == 150
    assert found.fit(100.0, 1000) == 1000


def test_a_round_slower_than_the_others_counts_at_once_and_a_faster_one_slowly():
    assert pace((0, 0.0), (10, 1.0), (10, 2.0)).fit(10.0, 1000) == 50
    assert pace((0, 0.0), (10, 4.5), (10, 1.4)).fit(10.0, 1000) == 36  # (0.8 x 4.5 s + 1.4 s) for (8 + 10) steps
    assert pace((0, 0.0), (2, 4.0), (1000, 4.0)).fit(10.0, 2000) > 1300  # few steps tell little


@pytest.mark.parametrize("stutter", [0.2, 0.2001, 5.0])
def test_an_empty_round_that_stuttered_does_not_starve_a_site_that_has_time(stutter):
    found = pace((0, 3.0), (0, stutter), (16, 0.2))  # the steps were no slower than the empty round
    assert found.fit(1e6, 20000) == 20000
    assert 1 < found.fit(0.5, 20000) <= 0.5 * 16 / 0.2  # nor does it get more than the time allows
    found.learn(20, 0.25)
    assert found.fit(0.5, 20000) > 1


@pytest.mark.parametrize("seconds", [0.0, 0.4])
def test_where_not_even_the_overhead_fits_one_step_is_tried_and_none_where_none_is_asked(seconds):
    found = pace((0, 0.5), (10, 1.5))
    assert (found.fit(seconds, 7), found.fit(seconds, 0)) == (1, 0)
    assert Pace().fit(seconds, 7) == 1
