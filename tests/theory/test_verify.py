"""The experiments hold, and each refutes deliberately wrong constants: too small and, where one is attained, too large."""

import json
from math import inf

import numpy as np
import pytest

from fedtier.studies.theory import verify as verification
from fedtier.studies.theory.experiments import estimate, inexact, kinks, local_error, regimes, terms
from fedtier.studies.theory.row import at_most, attained, exceeds
from fedtier.studies.theory.words import rows_object, rows_parts
from fedtier.theory import lipschitz, local, sphere, theorem1

from ..small_runs import first_slow
from . import plain


def by_statement(rows, part):
    return next(row for row in rows if part in row.statement)


def times(monkeypatch, module, name, factor):
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments: factor * right(*arguments))


class TestRows:
    def test_a_bound_is_refuted_from_above_and_a_value_from_both_sides(self):
        assert at_most("a", "(1)", 1.0, 2.0, "").holds and not at_most("a", "(1)", 2.2, 2.0, "", slack=0.05).holds
        assert at_most("a", "(1)", 2.09, 2.0, "", slack=0.05).holds
        assert [attained("a", "(1)", x, 2.0, "", slack=0.05).holds for x in (1.8, 1.95, 2.05, 2.2)] == [
            False,
            True,
            True,
            False,
        ]
        assert (
            attained("a", "(1)", -0.45, -0.5, "", slack=0.2).holds and not attained("a", "(1)", -2.4, -0.5, "", slack=0.2).holds
        )
        assert exceeds("a", "(1)", 2.1, 2.0, "").holds and not exceeds("a", "(1)", 2.0, 2.0, "").holds

    def test_a_row_says_what_it_would_have_refuted(self):
        assert at_most("a", "(1)", 1.0, 2.0, "").refutes == "a bound below 0.5 of this one; no larger one"
        assert attained("a", "(1)", 1.0, 1.0, "", slack=0.05).refutes == "a value 5 % off, either way"
        assert exceeds("a", "(1)", 1.0, 2.0, "").refutes.startswith("nothing")

    def test_the_table_says_what_was_refuted(self):
        rows = [at_most("a", "(1)", 1.0, 2.0, "so"), at_most("b", "(2)", np.float64(inf), 2.0, "so")]
        assert rows_parts(rows)[-1] == "2 statements, 1 refuted"
        printed = json.loads(json.dumps(rows_object(rows), allow_nan=False))
        assert printed["refuted"] == 1
        assert printed["statements"][1]["measured"] is None and printed["statements"][1]["holds"] is False


class TestMovement:
    @pytest.mark.slow
    def test_solutions_move_no_faster_than_promised_and_half_of_the_constant_is_caught(self, monkeypatch):
        assert all(row.holds for row in kinks.movement())
        right = lipschitz.proximal_motion

        def half(*arguments):
            moves = right(*arguments)
            return moves._replace(difference=moves.difference._replace(value=moves.difference.value / 2))

        monkeypatch.setattr(kinks, "proximal_motion", half)
        wrong = [row for row in kinks.movement() if row.statement.startswith("movement")]
        assert len(wrong) == 3 and not any(row.holds for row in wrong)

    @pytest.mark.slow
    def test_the_orthant_example_is_solved_across_its_kink(self):
        assert all(row.holds for row in kinks.kinks())


class TestEstimate:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(estimate, "SIZES", (10,))
        monkeypatch.setattr(estimate, "DRAWS", 1000)
        monkeypatch.setattr(estimate, "MANY", 20_000)

    def test_half_of_the_second_moment_bound_is_caught(self, monkeypatch):
        assert all(row.holds for row in estimate.moments())
        times(monkeypatch, sphere, "second_moment", 0.5)
        assert not by_statement(estimate.moments(), "E|g|^2 over n L0^2").holds

    def test_a_second_moment_bound_ten_times_too_large_is_not_attained(self, monkeypatch):
        times(monkeypatch, sphere, "second_moment", 10)
        rows = estimate.moments()
        assert by_statement(rows, "E|g|^2 over n L0^2").holds
        assert not by_statement(rows, "linear: attained").holds

    def test_a_forgotten_factor_n_is_caught(self, monkeypatch):
        right = estimate.two_point
        monkeypatch.setattr(estimate, "two_point", lambda plus, minus, v: right(plus, minus, v) / v.size)
        assert not by_statement(estimate.moments(), "mean of g").holds

    @pytest.mark.slow
    @pytest.mark.parametrize("factor", [0.5, 1.1, 10])
    @pytest.mark.parametrize(("constant", "statement"), [("smoothness", "curvature of |x_1|"), ("gap", "gap of |x|")])
    def test_a_wrong_constant_of_smoothing_is_caught_from_both_sides(self, monkeypatch, constant, statement, factor):
        assert all(row.holds for row in estimate.smoothing())
        times(monkeypatch, sphere, constant, factor)
        assert not by_statement(estimate.smoothing(), statement).holds


@pytest.fixture(scope="module")
def differences():
    """Errors of the estimate by (is it Algorithm 2, H, coupled), measured once: no constant of the theory enters them."""
    rows = inexact._data()
    solved, worst = inexact._differences(rows, local.guaranteed(2.0, 2.0)), inexact._differences(rows, None)
    found = {(True, H, coupled): solved(H, coupled, 2000) for H in (1, 64) for coupled in (0, 1)}
    return found | {(False, 1, 1): worst(1, 1, 20_000)}


class TestInexactSolves:
    @pytest.fixture(autouse=True)
    def measured_once(self, monkeypatch, differences):
        monkeypatch.setattr(inexact, "STEPS", np.array([1, 64]))
        monkeypatch.setattr(inexact, "DRAWS", 2000)
        monkeypatch.setattr(
            inexact, "_differences", lambda rows, step: lambda H, coupled, draws: differences[step is not None, H, coupled]
        )

    @pytest.mark.slow
    def test_they_hold(self):
        rows = inexact.inexact()
        assert [row.statement for row in rows if not row.holds] == []
        assert by_statement(rows, "Algorithm 2").measured > 0.3  # so that a third of the bound is refuted

    @pytest.mark.parametrize("factor", [0.01, 0.3])
    def test_a_smaller_second_moment_is_caught_by_algorithm_2_and_by_the_worst_solver(self, monkeypatch, factor):
        times(monkeypatch, sphere, "inexact_second_moment", factor)
        rows = inexact.inexact()
        assert not by_statement(rows, "Algorithm 2, independent draws").holds
        assert not by_statement(rows, "the worst solver: E|error").holds

    @pytest.mark.parametrize("factor", [0.01, 0.5, 10])
    def test_a_wrong_bias_is_caught_from_both_sides(self, monkeypatch, factor):
        times(monkeypatch, sphere, "inexact_bias", factor)
        rows = inexact.inexact()
        assert [row.statement for row in rows if not row.holds] == ["the worst solver: squared bias over its bound, attained"]

    def test_a_second_moment_ten_times_too_large_is_not_attained(self, monkeypatch):
        times(monkeypatch, sphere, "inexact_second_moment", 10)
        refuted = [row.statement for row in inexact.inexact() if not row.holds]
        assert refuted == ["the worst solver: E|error of g|^2 over its bound, attained"]

    def test_solves_that_do_not_share_their_draws_are_caught(self, differences, monkeypatch):
        def unshared(rows, step):
            return lambda H, coupled, draws: differences[step is not None, H, 1 if step is None else 0]

        monkeypatch.setattr(inexact, "_differences", unshared)
        assert not by_statement(inexact.inexact(), "independent over coupled").holds


@pytest.mark.slow
def test_a_noise_ten_times_too_small_is_caught_by_algorithm_2(monkeypatch):
    monkeypatch.setattr(local_error, "CHAINS", 64)
    monkeypatch.setattr(local_error, "STEPS", 2 ** np.arange(0, 9))
    right = local.recursion
    monkeypatch.setattr(local, "recursion", lambda lr, client, H: right(lr, client._replace(variance=client.variance / 10), H))
    assert not by_statement(local_error.local_error(), "orthant").holds


class TestTheoremOne:
    """Each term of (19) and (21), left out where it is needed; the paths are those of a plain NumPy implementation."""

    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setattr(regimes, "run", plain.run)
        monkeypatch.setattr(terms, "ROUNDS", 1000)
        monkeypatch.setattr(terms, "SEEDS", 16)

    @pytest.fixture
    def outcomes(self):
        made = [(term, regime := term.regime(), terms.measure(term, regime)) for term in terms.TERMS]
        return {regime.name: (term, regime, outcome) for term, regime, outcome in made}

    @pytest.mark.slow
    def test_every_regime_holds_and_needs_its_term(self, outcomes):
        for term, regime, outcome in outcomes.values():
            rows = terms.term_rows(term, regime, outcome)
            assert [row.statement for row in rows if not row.holds] == []

    def refuted(self, outcomes, name):
        weighted, uniform, _ = terms.term_rows(*outcomes[name])
        return not weighted.holds, not uniform.holds

    @pytest.mark.slow
    def test_without_the_noise_of_the_estimate_both_bounds_are_refuted(self, outcomes, monkeypatch):
        monkeypatch.setattr(theorem1, "cohort_variance", lambda *arguments: 0.0)
        assert self.refuted(outcomes, "the estimate's noise") == (True, True)
        assert self.refuted(outcomes, "the server's noise") == (False, False)

    @pytest.mark.slow
    def test_without_the_noise_of_the_server_both_bounds_are_refuted(self, outcomes, monkeypatch):
        right = theorem1.landscape

        def quiet(constants, *rest):
            return right(constants._replace(sigma=constants.sigma._replace(value=0.0)), *rest)

        monkeypatch.setattr(theorem1, "landscape", quiet)
        assert self.refuted(outcomes, "the server's noise") == (True, True)
        assert self.refuted(outcomes, "the estimate's noise") == (False, False)

    def test_without_the_bias_of_the_solves_both_bounds_are_refuted(self, outcomes, monkeypatch):
        monkeypatch.setattr(theorem1, "felt_error", lambda constants, errors: np.zeros(()))
        assert self.refuted(outcomes, "the bias of the solves") == (True, True)

    def test_a_noise_a_hundred_times_too_small_is_refuted(self, outcomes, monkeypatch):
        times(monkeypatch, theorem1, "cohort_variance", 0.01)
        assert self.refuted(outcomes, "the estimate's noise") == (True, True)

    def test_the_starts_are_minima_of_F(self):
        # Inside `around`, where all of x +- eta lies within every bowl, F is a quadratic with gradient 0 at the start; outside,
        # |x - a|^2/2 alone exceeds F(x_0), which is f(x_0) and at most penalty/2 s^2 eta^2 more by smoothing.
        for regime in (regimes.estimate_noise(), regimes.solver_bias()):
            form, eta = regime.place.form, regime.eta
            s = form.shrink()[0]
            np.testing.assert_allclose(form.smoothed_gradient(regime.start, eta), 0, atol=1e-6)
            around = np.sqrt(2 * (form.value(regime.start) + form.penalty / 2 * s**2 * eta**2))
            farthest = np.linalg.norm(regime.start - form.b, axis=1).max() + around + eta
            assert s * farthest <= form.radius[0] * (1 + 1e-6)
        alone = regimes.server_noise()
        assert alone.place.form.penalty == 0
        np.testing.assert_array_equal(alone.start, alone.place.form.a)

    @pytest.mark.slow
    def test_the_slope_of_a_constant_step_is_not_that_of_a_falling_one(self, outcomes):
        _, regime, falling = outcomes["the estimate's noise"]
        assert terms.falling_row(falling).holds
        flat = plain.run(regime, "constant", falling.gamma[100], rounds=1000, seeds=16)
        assert not terms.falling_row(flat).holds

    def test_means_that_fall_with_another_power_or_exceed_the_rate_are_refuted(self):
        rate = terms._rate(regimes.estimate_noise())
        right = [0.06 * rate.bound(R) for R in terms.LENGTHS]
        assert all(row.holds for row in terms.constant_rows(rate, right))
        bound, without, slope = terms.constant_rows(rate, [m * R**-0.3 for m, R in zip(right, terms.LENGTHS, strict=True)])
        assert bound.holds and without.holds and not slope.holds  # too fast is another power, too
        assert not terms.constant_rows(rate._replace(theta_2=0.01 * rate.theta_2), right)[0].holds

    def test_a_fall_without_noise_is_too_fast_for_the_rate_of_noise(self):
        # A quadratic without noise: |grad F|^2 falls like exp(-c sqrt(r)), steeper than every power.
        gamma = 0.2 / np.sqrt(np.arange(1000) + 1.0)
        squares = np.cumprod((1 - gamma) ** 2)
        assert not terms.falling_row(regimes.Outcome(squares, gamma, 0.0)).holds


@pytest.mark.parametrize("term", first_slow([(term,) for term in terms.TERMS]), ids=lambda term: term.regime.__name__)
def test_the_engine_s_paths_are_those_of_plain_numpy(term):
    # 32 seeds each: a mean over rounds 500 to 1000 of chi-squares that forget within 1/(2 gamma) rounds.
    regime = term.regime()
    c = term.share * regime.land().step_limit()
    found = regimes.run(regime, term.shape, c, rounds=1000, seeds=32)
    expected = plain.run(regime, term.shape, c, rounds=1000, seeds=32)
    np.testing.assert_allclose(found.gamma, expected.gamma)
    assert found.squares[500:].mean() == pytest.approx(expected.squares[500:].mean(), rel=0.2)
    assert found.error == pytest.approx(expected.error, rel=0.05)


@pytest.mark.slow
def test_pictures_are_small_and_the_same_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr(verification, "EXPERIMENTS", {"smoothing": estimate.smoothing})
    said = []
    verification.verify(tmp_path / "a", said.append)
    verification.verify(tmp_path / "b")
    first, second = ((tmp_path / folder / "smoothing.svg").read_bytes() for folder in "ab")
    assert first == second and len(first) < 60_000
    assert said and said[0].startswith("smoothing: ")


@pytest.mark.slow
@pytest.mark.checked
def test_no_statement_is_refuted(tmp_path):
    rows = verification.verify(tmp_path)
    assert [row.statement for row in rows if not row.holds] == []
    json.dumps(rows_object(rows), allow_nan=False)
    assert {p.stem for p in tmp_path.glob("*.svg")} == set(verification.EXPERIMENTS)
    assert max(p.stat().st_size for p in tmp_path.glob("*.svg")) < 100_000
