"""The discrete Gaussian is the one it says it is, and t sites together have the noise that the accountant counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fedtier.errors import FedtierError
from fedtier.protocol.secure import discrete_noise
from fedtier.protocol.secure.discrete_noise import Bits, discrete_gaussian

from .house import members, play, settings


def chances(variance, reach):
    k = np.arange(-reach, reach + 1)
    p = np.exp(-(k**2) / (2 * variance))
    return k, p / p.sum()


@pytest.mark.parametrize(("variance", "reach"), [(1, 4), (9, 9)])
def test_draws_have_the_chances_of_the_discrete_gaussian(variance, reach):
    drawn = discrete_gaussian(variance, 40_000, b"k" * 32)
    k, p = chances(variance, reach)
    inside = drawn[np.abs(drawn) <= reach]
    found = np.asarray([(inside == one).sum() for one in k])
    assert len(drawn) - len(inside) < 0.01 * len(drawn)
    assert stats.chisquare(found, p * len(inside)).pvalue > 1e-3


def test_large_deviations_are_those_of_the_gaussian():
    variance = 10**11
    drawn = discrete_gaussian(variance, 20_000, b"k" * 32) / math.sqrt(variance)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3


def test_where_double_precision_leaves_it_open_the_coin_is_decided_exactly(monkeypatch):
    """With a doubt of 1 every coin is."""
    monkeypatch.setattr(discrete_noise, "DOUBT", 1.0)
    heads = Bits(b"k" * 32).coins(np.full(400, 0.5), lambda k: Fraction(1, 2)).sum()
    assert stats.binomtest(int(heads), 400, math.exp(-0.5)).pvalue > 1e-3
    bits, chance = Bits(b"k" * 32), math.exp(-0.5)
    assert bits._exactly(Fraction(1, 2), int(chance * 2**32) - 1)  # decided by the first bits
    assert not bits._exactly(Fraction(1, 2), int(chance * 2**32) + 1)


def test_draws_are_those_of_their_seed():
    one, same, other = (discrete_gaussian(50, 100, seed * 32) for seed in (b"a", b"a", b"b"))
    np.testing.assert_array_equal(one, same)
    assert np.mean(one == other) < 0.3
    drawn = Bits(b"c" * 32).below(3, 30_000)
    assert stats.chisquare(np.bincount(drawn)).pvalue > 1e-3
    with pytest.raises(FedtierError, match="sigma"):
        discrete_gaussian(2**60, 1, b"a" * 32)


def test_a_threshold_of_sites_has_the_whole_noise_on_a_sum_of_clipped_replies():
    """Each reply is far too long and is shortened to the clip; the first number is 1, not noisy, and counts the sites."""
    n, how = 4000, settings(4, 3, bound=2.0, clip=0.5, noise=3.0)
    values = np.zeros((4, n))
    values[:, 0] = 2.0
    words, alive = play(members(how), values, lost=[set(), set(), {2}])
    found = how.grid.numbers(words)
    assert alive == [0, 1, 3]
    assert found[1:].std() == pytest.approx(3.0 * 0.5, rel=0.05)
    assert found[0] == pytest.approx(3 * 0.5, abs=4 * 1.5)
    assert how.variance(n) * how.threshold >= (how.noise * how.sensitivity(n)) ** 2
