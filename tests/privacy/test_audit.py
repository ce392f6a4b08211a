"""The audit: a claim that holds stands, a mechanism that is broken does not."""

import numpy as np
import pytest
from scipy import stats

from fedtier.methods.private_rows import RowNoise
from fedtier.privacy import Cohorts, Mechanism, audit, audit_rows, epsilon_of
from fedtier.privacy.audit import lower_bound

COHORTS, ROUNDS, DELTA, RUNS = Cohorts("poisson", 8, 4), 2, 0.05, 1500
SOUND = Mechanism("central", clip=0.3, noise=1.0, expected=4.0)
CLAIMED = epsilon_of(1.0, ROUNDS, COHORTS, DELTA, "pld")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("played", "holds"),
    [(SOUND, True), (SOUND._replace(noise=0.5), False), (SOUND._replace(clip=3.0, noise=0.1), False)],
    ids=["sound", "half the noise", "a clip ten times too long"],
)
def test_a_sound_mechanism_keeps_its_claim_and_a_broken_one_is_caught(played, holds):
    found = audit(played, COHORTS, ROUNDS, DELTA, CLAIMED, runs=RUNS, claimed_noise=1.0)
    assert found.holds == holds, found
    assert found.epsilon > 0.3, "the canary can be seen at all"


LOCAL = Mechanism("local", clip=0.3, noise=1.0, expected=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("played", "holds"),
    [(LOCAL, True), (LOCAL._replace(noise=0.5), False), (LOCAL._replace(place="distributed", quorum=3), True)],
    ids=["local", "half the noise", "distributed"],
)
def test_noise_that_clients_add_keeps_its_claim_and_a_broken_one_is_caught(played, holds):
    """Of local noise the server sees the canary's own reply, whatever the others would add to a sum."""
    everyone = Cohorts("all", 3, 3)
    claimed = epsilon_of(1.0, ROUNDS, everyone, DELTA, "pld")
    found = audit(played, everyone, ROUNDS, DELTA, claimed, runs=RUNS, claimed_noise=1.0)
    assert found.holds == holds, found
    assert found.epsilon > 0.5 * claimed, "the canary can be seen at all"


ROWS, MINIBATCHES, STEPS = RowNoise(clip=0.3, by_rows=((5, 9.0), (8, 1.0), (20, 0.1)), most=20), Cohorts("poisson", 8, 4), 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("played", "batch", "holds"),
    [
        (ROWS, 4, True), (ROWS._replace(by_rows=((5, 1.0), (8, 0.5))), 4, False), (ROWS, 8, False),
    ],
    ids=["sound", "half the noise", "coins that fall too often"],
)  # fmt: skip
def test_noise_of_rows_keeps_its_claim_and_a_broken_one_is_caught(played, batch, holds):
    claimed = epsilon_of(1.0, STEPS, MINIBATCHES, DELTA, "pld")
    found = audit_rows(played, batch, MINIBATCHES, 1.0, STEPS, DELTA, claimed, runs=4000)
    assert found.holds == holds, found
    assert found.epsilon > 0.3, "the canary can be seen at all"


def test_the_bound_is_below_the_truth_and_not_far_below():
    """Two normals, 2 apart: at delta = 0 the best that 1 % of false alarms can show is log(0.372/0.01)."""
    rng = np.random.default_rng(0)
    found = lower_bound(2 + rng.standard_normal(20000), rng.standard_normal(20000), 0.0, 0.99)
    assert 2.5 < found < np.log(stats.norm.sf(4 - 2) / stats.norm.sf(4))


def test_equal_scores_refute_nothing():
    rng = np.random.default_rng(1)
    assert lower_bound(rng.standard_normal(2000), rng.standard_normal(2000), 1e-3, 0.99) < 0.2
