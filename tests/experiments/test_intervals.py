"""Intervals over seeds: Student's where the seeds share their test rows, Nadeau and Bengio's where each draws its own."""

from pathlib import Path

import numpy as np
import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments import outcomes
from fedtier.experiments.comparison import Cell, Comparison
from fedtier.experiments.outcomes import Interval, Outcome

SHARES = ["data.test_share=0.2", "data.server_share=0.5", "data.client_test_share=0.25"]
# Of 40 rows: 8 for the test; of the other 32 half for the server; of the clients' 16 a quarter held back: 16 + 12 to train on.
TEST, HELD, TRAINING = 8, 4, 28


def ratio(metric: str, *settings: str) -> float:
    return outcomes.resampling_ratio(configuration.load_config(None, [*SHARES, *settings]), metric)


def test_the_corrected_interval_has_the_published_closed_form():
    # Nadeau and Bengio 2003: t(n - 1) sqrt((1/n + n_test/n_train) s^2). With 1, 2, 3: s = 1, t = 4.302653 at 2 degrees.
    plain, corrected = (outcomes.interval(np.asarray([1.0, 2.0, 3.0]), r) for r in (0.0, 0.25))
    assert plain.half == pytest.approx(4.302653 * np.sqrt(1 / 3), rel=1e-6)
    assert corrected.half == pytest.approx(4.302653 * np.sqrt(1 / 3 + 0.25), rel=1e-6) and corrected.mean == 2.0


def test_a_corrected_interval_holds_its_level_where_the_plain_one_does_not():
    """A mean by 10 random splits of 40 rows, 8 of them for the test: the plain interval is too narrow by far."""
    draws = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(400):
        rows = draws.standard_normal(40)
        scores = np.asarray([np.mean((rows[o[:8]] - rows[o[8:]].mean()) ** 2) for o in map(draws.permutation, [40] * 10)])
        truth = 1 + 1 / 32  # the expected squared error of the mean of 32 rows
        found = [outcomes.interval(scores, r) for r in (0.0, 8 / 32)]
        hits += [abs(one.mean - truth) <= one.half for one in found]
    assert hits[0] < 0.8 * 400 < 0.9 * 400 < hits[1]


def test_the_rows_that_judge_a_metric_and_how_often_they_are_drawn_decide_its_interval():
    assert ratio("global") == pytest.approx(TEST / TRAINING) == ratio("loss")
    for personal in ("personal", "personal_by_rows", "worst", "p10", "global_on_clients", "personal_rmse", "worst_rmse"):
        assert ratio(personal) == ratio(personal, "data.test_seed=3") == pytest.approx(HELD / TRAINING)
    assert ratio("global", "data.test_seed=3") == 0.0  # the same rows for every seed
    assert ratio("f") == 0.0  # on rows that were trained on
    # a quarter of the server's 16 and of the clients' 12 to choose settings by: 12 + 9 are left to train on
    chosen = ("data.test_seed=3", "data.validation_share=0.25")
    assert ratio("global", *chosen) == pytest.approx(4 / 21) and ratio("personal", *chosen) == pytest.approx(3 / 21)
    # without rows at the server the clients' validation rows judge both models
    alone = (*chosen, "data.server_share=0", "method.name=fedavg")
    assert ratio("global", *alone) == ratio("personal", *alone) == pytest.approx(0.25 / 0.75)


def test_scores_and_paired_differences_of_a_comparison_have_the_interval_of_its_data():
    finals = {(m, ""): [{"seed": s, "global_accuracy": a + s / 100} for s in range(3)] for m, a in (("a", 0.5), ("b", 0.6))}
    finals["b", ""][0]["global_accuracy"] = 0.63
    cells = [Cell(m, "", configuration.load_config(None, SHARES), Path(m)) for m, _ in finals]
    outcome = Outcome(Comparison(cells, "a", ("global",)), finals)
    widened = np.sqrt(1 / 3 + TEST / TRAINING)
    assert outcomes.score(outcome, "a", "", "global") == pytest.approx((51.0, 4.302653 * widened), rel=1e-6)
    # differences 13, 10, 10 points: mean 11, s = sqrt(3)
    found = outcomes.paired(outcome, "b", "", "global")
    assert found == pytest.approx((11.0, 4.302653 * widened * np.sqrt(3)), rel=1e-6)
    assert outcomes.paired(outcome, "a", "", "global", other="b").mean == -found.mean


def test_only_an_interval_on_one_side_of_0_is_certain():
    assert Interval(1.0, 0.9).excludes_zero() and Interval(-1.0, 0.9).excludes_zero()
    assert not Interval(1.0, 1.1).excludes_zero() and not Interval(1.0, float("nan")).excludes_zero()
    assert not Interval(float("nan"), float("nan")).excludes_zero()
