"""The experiments hold, and each refutes a deliberately wrong constant."""

import numpy as np
import pytest

from fedtier.studies.theory import verify as verification
from fedtier.studies.theory.experiments import estimate, kinks, local_error
from fedtier.studies.theory.row import Row
from fedtier.studies.theory.words import rows_object, rows_parts
from fedtier.theory import lipschitz, local, sphere


def by_statement(rows, part):
    return next(row for row in rows if part in row.statement)


def test_solutions_move_no_faster_than_promised_and_half_of_the_constant_is_caught(monkeypatch):
    assert all(row.holds for row in kinks.movement())
    right = lipschitz.proximal_motion

    def half(*arguments):
        moves = right(*arguments)
        return moves._replace(difference=moves.difference._replace(value=moves.difference.value / 2))

    monkeypatch.setattr(kinks, "proximal_motion", half)
    wrong = [row for row in kinks.movement() if row.statement.startswith("movement")]
    assert len(wrong) == 3 and not any(row.holds for row in wrong)


def test_the_orthant_example_is_solved_across_its_kink():
    assert all(row.holds for row in kinks.kinks())


def test_half_of_the_second_moment_bound_is_caught(monkeypatch):
    monkeypatch.setattr(estimate, "SIZES", (10,))
    monkeypatch.setattr(estimate, "DRAWS", 1000)
    assert all(row.holds for row in estimate.moments())
    right = sphere.second_moment
    monkeypatch.setattr(sphere, "second_moment", lambda L0, n: right(L0, n) / 2)
    assert not by_statement(estimate.moments(), "E|g|^2 over n L0^2").holds


def test_a_forgotten_factor_n_is_caught(monkeypatch):
    monkeypatch.setattr(estimate, "SIZES", (10,))
    monkeypatch.setattr(estimate, "DRAWS", 1000)
    right = estimate.two_point
    monkeypatch.setattr(estimate, "two_point", lambda plus, minus, v: right(plus, minus, v) / v.size)
    assert not by_statement(estimate.moments(), "mean of g").holds


def test_half_of_the_smoothness_constant_is_caught(monkeypatch):
    assert all(row.holds for row in estimate.smoothing())
    right = sphere.smoothness
    monkeypatch.setattr(sphere, "smoothness", lambda L0, n, eta: right(L0, n, eta) / 2)
    assert not by_statement(estimate.smoothing(), "curvature of |x_1|").holds


def test_a_noise_ten_times_too_small_is_caught_by_algorithm_2(monkeypatch):
    monkeypatch.setattr(local_error, "CHAINS", 64)
    monkeypatch.setattr(local_error, "STEPS", 2 ** np.arange(0, 9))
    right = local.recursion
    monkeypatch.setattr(local, "recursion", lambda lr, client, H: right(lr, client._replace(variance=client.variance / 10), H))
    assert not by_statement(local_error.local_error(), "orthant").holds


def test_pictures_are_small_and_the_same_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr(verification, "EXPERIMENTS", {"smoothing": estimate.smoothing})
    said = []
    verification.verify(tmp_path / "a", said.append)
    verification.verify(tmp_path / "b")
    first, second = ((tmp_path / folder / "smoothing.svg").read_bytes() for folder in "ab")
    assert first == second and len(first) < 60_000
    assert said and said[0].startswith("smoothing: ")


def test_the_table_says_what_was_refuted():
    rows = [Row("a", "(1)", 1.0, 2.0, True, "so"), Row("b", "(2)", 3.0, 2.0, False, "so")]
    assert rows_parts(rows)[-1] == "2 statements, 1 refuted"
    assert rows_object(rows)["refuted"] == 1


@pytest.mark.slow
def test_no_statement_is_refuted(tmp_path):
    rows = verification.verify(tmp_path)
    assert [row.statement for row in rows if not row.holds] == []
    assert {p.stem for p in tmp_path.glob("*.svg")} == set(verification.EXPERIMENTS)
    assert max(p.stat().st_size for p in tmp_path.glob("*.svg")) < 100_000
