"""Epsilon and noise against dp-accounting called by hand, and against published tables."""

import math

import dp_accounting as dp
import pytest
from dp_accounting import pld, rdp

from fedtier.errors import FedtierError
from fedtier.privacy import Cohorts, epsilon_of, noise_for, rounds_within

from ..small_runs import first_slow, mostly_slow

dp_drawn = dp.SampledWithoutReplacementDpEvent
ALL, TENTH = Cohorts("all", 100, 100), Cohorts("poisson", 100, 10)
ADD, REPLACE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE
BY_HAND = [
    ("pld", ALL, 4.0, 10, 1e-5, dp.GaussianDpEvent(4.0), 10, ADD),
    ("rdp", ALL, 4.0, 100, 1e-5, dp.GaussianDpEvent(4.0), 100, ADD),
    ("rdp", ALL, 0.7, 3, 1e-3, dp.GaussianDpEvent(0.7), 3, ADD),
    ("pld", TENTH, 4.0, 100, 1e-5, dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(4.0)), 100, ADD),
    ("rdp", TENTH, 4.0, 500, 1e-6, dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(4.0)), 500, ADD),
    ("rdp", Cohorts("poisson", 40, 20), 2.0, 7, 1e-3, dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(2.0)), 7, ADD),
    ("rdp", Cohorts("drawn", 100, 10), 4.0, 500, 1e-5, dp_drawn(100, 10, dp.GaussianDpEvent(2.0)), 500,
     REPLACE),
    ("rdp", Cohorts("drawn", 30, 3), 8.0, 20, 1e-4, dp_drawn(30, 3, dp.GaussianDpEvent(4.0)), 20, REPLACE),
    ("rdp", Cohorts("cycle", 100, 10), 4.0, 95, 1e-5, dp.GaussianDpEvent(4.0), 10, ADD),
    ("pld", Cohorts("cycle", 10, 5), 6.0, 7, 1e-2, dp.GaussianDpEvent(6.0), 4, ADD),
]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "cohorts", "noise", "rounds", "delta", "event", "times", "relation"), mostly_slow(BY_HAND, *BY_HAND[1:4], BY_HAND[7])
)
def test_epsilon_is_that_of_dp_accounting_called_by_hand(by, cohorts, noise, rounds, delta, event, times, relation):
    accountant = (pld.PLDAccountant if by == "pld" else rdp.RdpAccountant)(neighboring_relation=relation)
    assert epsilon_of(noise, rounds, cohorts, delta, by) == accountant.compose(event, times).get_epsilon(delta)


@pytest.mark.parametrize(
    ("rounds", "share", "noise", "wanted"),
    mostly_slow([(100, 1.0, 8.0, 5.7), (100, 0.1, 8.0, 0.45), (500, 0.01, 4.0, 0.19)], (100, 0.1, 8.0, 0.45)),
)
def test_the_table_of_slopes_is_reproduced(rounds, share, noise, wanted):
    cohorts = Cohorts("poisson", 100, round(100 * share))
    assert epsilon_of(noise, rounds, cohorts, 1e-5) == pytest.approx(wanted, rel=0.02)


def test_another_rule_for_cohorts_has_another_bound():
    """Of the same noise, rounds and mean size; the fixed size is worth less than coins, coins more than everyone."""
    found = {rule: epsilon_of(4.0, 50, Cohorts(rule, 100, 10), 1e-5, "rdp") for rule in ("poisson", "drawn")}
    found["all"] = epsilon_of(4.0, 50, ALL, 1e-5, "rdp")
    assert 1.5 * found["poisson"] < found["drawn"] < found["all"]


def test_poisson_s_bound_is_refused_for_cohorts_of_a_fixed_size():
    with pytest.raises(FedtierError, match="no bound for cohorts of a fixed size"):
        epsilon_of(4.0, 10, Cohorts("drawn", 100, 10), 1e-5, "pld")


@pytest.mark.parametrize(
    ("cohorts", "by"),
    [(ALL, "rdp"), *first_slow([(TENTH, "pld"), (ALL, "pld"), (Cohorts("drawn", 50, 5), "auto")])],
)
def test_the_noise_for_a_budget_keeps_it_and_hardly_more(cohorts, by):
    noise = noise_for(3.0, 20, cohorts, 1e-5, by)
    assert epsilon_of(noise, 20, cohorts, 1e-5, by) <= 3.0 < epsilon_of(0.99 * noise, 20, cohorts, 1e-5, by)


def test_a_budget_pays_for_so_many_rounds_and_no_more():
    rounds = rounds_within(2.0, 4.0, TENTH, 1e-5, 1000, "rdp")
    assert 0 < rounds < 1000
    assert epsilon_of(4.0, rounds, TENTH, 1e-5, "rdp") <= 2.0 < epsilon_of(4.0, rounds + 1, TENTH, 1e-5, "rdp")
    assert rounds_within(2.0, 4.0, TENTH, 1e-5, 3, "rdp") == 3


def test_no_rounds_cost_nothing_and_no_noise_protects_nobody():
    assert epsilon_of(1.0, 0, ALL, 1e-5) == 0.0
    assert epsilon_of(0.0, 1, ALL, 1e-5) == math.inf


@pytest.mark.parametrize(("epsilon", "delta", "name"), [(0.0, 1e-5, "epsilon"), (-1.0, 1e-5, "epsilon"), (1.0, 1.0, "delta")])
def test_budgets_without_meaning_are_refused(epsilon, delta, name):
    with pytest.raises(FedtierError, match=name):
        noise_for(epsilon, 10, ALL, delta)


def test_a_budget_so_small_that_any_noise_below_it_spends_nothing_is_met_all_the_same():
    noise = noise_for(1e-4, 20, ALL, 1e-5, "rdp")
    assert noise > 1000 and epsilon_of(noise, 20, ALL, 1e-5, "rdp") <= 1e-4
