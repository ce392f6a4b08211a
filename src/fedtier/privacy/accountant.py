"""Epsilon from the noise, the number of rounds and the rule by which cohorts are drawn; and the way back.

The bounds are those of `dp-accounting` (Google), asked for the event that is really played. sigma is the noise on the sum of
clipped replies in units of the clip C.

| cohorts | neighbours: with and without | event of a round | by |
|---|---|---|---|
| all, every round | a client | Gaussian, sigma | PLD or RDP |
| poisson, each by its own coin q | a client | Poisson-sampled Gaussian, sigma | PLD or RDP |
| drawn, of fixed size | a client replaced by another, 2 C apart | Gaussian, sigma/2, sampled without replacement | RDP |
| cycle, in turn | a client | Gaussian, sigma, once in a cycle | PLD or RDP |

What a fixed-size cohort is worth is less than what a Poisson cohort of the same mean size is worth: in it, that one is asked
says that another is not.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import NOTHING, FedtierError, choice, positive, require, share, whole

RULES = ("all", "poisson", "drawn", "cycle")
ACCOUNTANTS = ("auto", "pld", "rdp")
PRECISION = 0.003  # relative, of a noise that is looked for, or of what it spends; always on the safe side
MOST_ROUNDS = 10**6


class Cohorts(NamedTuple):
    """How often a client is asked: `size` of `clients` in a round, on average, by a rule; see the module."""

    rule: str
    clients: int  # m
    size: int  # of the cohort; the mean size where coins are thrown

    @property
    def share(self) -> float:
        return self.size / self.clients

    @property
    def fixed(self) -> bool:
        """Whether cohorts are drawn with a fixed size, so that neighbours replace each other."""
        return self.rule == "drawn" and self.size < self.clients


def need_accountant() -> None:
    """Refuses to go on without the accountant."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise FedtierError("dp-accounting", NOTHING, "is not installed", 'pip install "fedtier[privacy]"')


def chosen(accountant: str, cohorts: Cohorts) -> str:
    """The accountant by name: for auto the tightest that has a bound for these cohorts."""
    choice("accountant", accountant, ACCOUNTANTS)
    choice("rule", cohorts.rule, RULES)
    rule = f"has no bound for cohorts of a fixed size, {cohorts.size} of {cohorts.clients}; PLD's numbers are Poisson's"
    hint = 'run.order = "poisson", or accountant = "rdp"'
    require(not (accountant == "pld" and cohorts.fixed), "accountant", accountant, rule, hint)
    return ("rdp" if cohorts.fixed else "pld") if accountant == "auto" else accountant


def epsilon_of(noise: float, rounds: int, cohorts: Cohorts, delta: float, accountant: str = "auto") -> float:
    """Epsilon at `delta` after `rounds` rounds with sigma = `noise`; 0 after none, infinite without noise."""
    by = chosen(accountant, cohorts)
    share("delta", delta, zero=False)
    whole("rounds", rounds, 0)
    if rounds == 0:
        return 0.0
    if noise <= 0:
        return math.inf
    import dp_accounting as dp
    from dp_accounting import pld, rdp

    relation = dp.NeighboringRelation.REPLACE_ONE if cohorts.fixed else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    event, times = dp.GaussianDpEvent(noise), rounds
    if cohorts.fixed:  # two replies that are clipped to C lie at most 2 C apart
        event = dp.SampledWithoutReplacementDpEvent(cohorts.clients, cohorts.size, dp.GaussianDpEvent(noise / 2))
    elif cohorts.rule == "poisson" and cohorts.share < 1:
        event = dp.PoissonSampledDpEvent(cohorts.share, event)
    elif cohorts.rule == "cycle":
        times = math.ceil(rounds * cohorts.size / cohorts.clients)
    with _quiet():
        found = (pld.PLDAccountant if by == "pld" else rdp.RdpAccountant)(neighboring_relation=relation)
        return float(found.compose(event, times).get_epsilon(delta))


def noise_for(epsilon: float, rounds: int, cohorts: Cohorts, delta: float, accountant: str = "auto") -> float:
    """The least sigma, up to PRECISION and never too little, that keeps `rounds` rounds within `epsilon` at `delta`."""
    positive("epsilon", epsilon)
    whole("rounds", rounds)

    def spent(by: str) -> Callable[[float], float]:
        return lambda noise: epsilon_of(noise, rounds, cohorts, delta, by)

    by = chosen(accountant, cohorts)
    found = _least(spent("rdp"), epsilon, 1.0, 0.02 if by == "pld" else PRECISION)  # quick, and never below what PLD needs
    return found if by == "rdp" else _least(spent("pld"), epsilon, found, PRECISION)


def _least(spent: Callable[[float], float], epsilon: float, guess: float, precision: float) -> float:
    """The least noise with spent(noise) <= epsilon. The logarithm of what is spent is nearly straight in that of the noise: the
    next guess is where the line through the last two sides meets the budget; every third halves what lies between."""
    low: tuple[float, float] | None = None  # too little noise, and what it spends
    high: tuple[float, float] | None = None  # enough
    at, inside = guess, epsilon * (1 - precision / 3)
    for turn in itertools.count(1):
        require(at < 1e7, "epsilon", epsilon, "needs more noise than can be", "raise epsilon")
        got = spent(at)
        if got <= epsilon:
            high = at, got
        else:
            low = at, got
        if high and (high[1] >= epsilon * (1 - precision) or (low and high[0] <= low[0] * (1 + precision))):
            break
        if low is None or high is None:
            at *= min(4.0, max(0.25, got / inside))
        elif turn % 3 == 0 or math.isinf(low[1]) or high[1] <= 0:
            at = math.sqrt(low[0] * high[0])
        else:
            part = math.log(inside / low[1]) / math.log(high[1] / low[1])
            at = low[0] * (high[0] / low[0]) ** min(0.98, max(0.02, part))
    assert high is not None
    return high[0]


def rounds_within(epsilon: float, noise: float, cohorts: Cohorts, delta: float, most: int, accountant: str = "auto") -> int:
    """How many rounds, `most` at most, stay within `epsilon`."""

    def within(rounds: int) -> bool:
        return epsilon_of(noise, rounds, cohorts, delta, accountant) <= epsilon

    if within(most):
        return most
    low, high = 0, most  # within(low), not within(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


@contextmanager
def _quiet() -> Iterator[None]:
    """Orders of RDP that do not converge are left out, which is safe: no need to be told of each."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
