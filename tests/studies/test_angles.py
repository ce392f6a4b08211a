"""The picture of what estimators are worth: its numbers against what is known."""

import numpy as np
import pytest

from fedtier.studies.angles import CASES, Quality, figure, quality


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 200])
def test_a_random_direction_has_the_variance_of_n_dimensions(n):
    found = quality("sphere", n, draws=4000)
    assert found.solves == 2
    assert found.variance / 2 == pytest.approx(n - 1, rel=0.15)  # E |n s v - g|^2 = (n - 1) |g|^2 for a quadratic
    assert 0 < found.cosine < 3 / np.sqrt(n)


@pytest.mark.slow
@pytest.mark.checked
def test_what_is_known_does_not_get_worse_with_n():
    assert quality("exact", 300, draws=2).cosine == pytest.approx(1.0, abs=1e-4)
    near, far = (quality("guided", n, draws=5).cosine for n in (30, 3000))
    assert min(near, far) > 0.8 and abs(near - far) < 0.15


def test_the_picture_has_a_line_for_every_case():
    found = {case: [Quality(0.5, 2.0, 2), Quality(0.4, 0.0, 2)] for case in CASES}
    left, right = figure(found, (5, 10)).axes
    assert len(left.get_lines()) == len(right.get_lines()) == len(CASES)
