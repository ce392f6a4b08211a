"""What each robust aggregation makes of replies: answers known in closed form, lost replies, huge ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.methods.robust.coordinate_median import median_over
from fedtier.methods.robust.rfa import geometric_median_over
from fedtier.methods.robust.trimmed_mean import trimmed_over


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


SEATS = 7  # of every cohort here, so that each rule is compiled once; empty seats hold NaN
compiled_median, compiled_trim = jax.jit(median_over), jax.jit(trimmed_over, static_argnums=2)
compiled_geometric = jax.jit(geometric_median_over)


def cohort(rows, weights=None, arrived=None):
    """(arrived, [S, 3] as a tree of two leaves, weights): what is taken over the whole tree and what leaf by leaf differs."""
    rows = np.asarray(rows, float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    count, width = rows.shape
    held = np.full((max(SEATS, count), 3), np.nan)
    held[:count] = np.pad(rows, ((0, 0), (0, 3 - width)))
    empty = len(held) - count
    here = np.pad(np.ones(count, bool) if arrived is None else np.asarray(arrived), (0, empty))
    weights = np.pad(np.ones(count) if weights is None else np.asarray(weights, float), (0, empty), constant_values=1.0)
    return jnp.asarray(here), {"a": jnp.asarray(held[:, :1]), "b": jnp.asarray(held[:, 1:])}, jnp.asarray(weights)


def flat(found):
    return np.concatenate([np.asarray(found["a"]), np.asarray(found["b"])])


def geometric(rows, weights=None, arrived=None, iterations=2000, tolerance=1e-13, nu=1e-12):
    return flat(compiled_geometric(*cohort(rows, weights, arrived), nu, iterations, tolerance))


def median(rows, weights=None, arrived=None):
    return flat(compiled_median(*cohort(rows, weights, arrived)))


def trimmed(rows, trim, arrived=None):
    return flat(compiled_trim(*cohort(rows, None, arrived)[:2], trim))


def weiszfeld(rows, weights, iterations=4000):
    """The geometric median by the published iteration from the mean."""
    p = np.asarray(weights) / np.sum(weights)
    z = p @ rows
    for _ in range(iterations):
        b = p / np.maximum(1e-14, np.linalg.norm(rows - z, axis=1))
        z = b @ rows / b.sum()
    return z


RANDOM = np.random.default_rng(5).standard_normal((7, 3)) * [1.0, 3.0, 0.2]
WEIGHTS = np.asarray([1.0, 0.5, 2.0, 1.5, 0.7, 1.1, 0.9])


@pytest.mark.known_answer("rfa")
@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ([[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0]),  # one reply
        ([[0.0, 0.0], [4.0, 2.0]], [2.0, 1.0, 0.0]),  # two: the mean, by symmetry
        ([0.0, 1.0, 10.0], [1.0, 0.0, 0.0]),  # on a line: the one in the middle
        ([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]], [0.5, np.sqrt(0.75) / 3, 0.0]),  # equilateral: the centroid
        ([[0, 0], [2, 0], [0, 2], [2, 2]], [1.0, 1.0, 0.0]),  # a convex quadrilateral: where its diagonals meet
        ([[1.0, 1.0, 1.0]] * 3 + [[9.0, -5.0, 2.0], [-7.0, 3.0, 0.0]], [1.0, 1.0, 1.0]),  # more than half at a point
    ],
)
def test_the_geometric_median_is_where_geometry_puts_it(rows, answer):
    np.testing.assert_allclose(geometric(rows), answer, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_the_geometric_median_agrees_with_the_published_iteration_from_the_mean():
    for weights in (WEIGHTS, np.ones(7)):  # with the first it is a reply, with the second it lies between them
        np.testing.assert_allclose(geometric(RANDOM, weights), weiszfeld(RANDOM, weights), rtol=0, atol=1e-10)


def test_distances_are_of_the_whole_model_and_not_of_its_leaves():
    by_leaf = np.concatenate([weiszfeld(part, WEIGHTS) for part in (RANDOM[:, :1], RANDOM[:, 1:])])
    assert np.abs(geometric(RANDOM, WEIGHTS) - by_leaf).max() > 0.05


def test_a_reply_of_more_than_half_of_the_weight_is_the_geometric_median():
    np.testing.assert_allclose(geometric(RANDOM, [10.0, 1, 1, 1, 1, 1, 1]), RANDOM[0], rtol=0, atol=1e-7)


def test_a_start_at_a_reply_that_is_not_the_answer_does_not_hold_the_iteration():
    """The coordinate medians are the reply at 0, but the others pull it: three unit vectors along (1, 1, 1)/sqrt(3), one each
    along -1, -2 and -3."""
    rows = np.asarray([[0, 0, 0], [4, 4, 4], [5, 5, 5], [6, 6, 6], [-9, 0, 0], [0, -9, 0], [0, 0, -9]], float)
    np.testing.assert_array_equal(np.median(rows, axis=0), 0.0)
    found = geometric(rows, tolerance=1e-10)
    assert found.min() > 0.1
    np.testing.assert_allclose(found, weiszfeld(rows, np.ones(7)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12])
def test_two_of_five_huge_replies_do_not_move_the_geometric_median_with_the_default_settings(size):
    rows = np.asarray([[0.0, 0.0, 0.0]] * 3 + [[size, 0.0, 0.0], [0.0, size, 0.0]])
    found = geometric(rows, iterations=50, tolerance=1e-3, nu=1e-6)
    assert np.linalg.norm(found) < 1e-5


def test_four_iterations_from_the_mean_are_not_robust_which_is_why_we_start_elsewhere():
    rows, p = np.asarray([[0.0, 0.0]] * 3 + [[1e6, 0.0], [0.0, 1e6]]), np.full(5, 0.2)
    z = p @ rows
    for _ in range(4):
        b = p / np.maximum(1e-6, np.linalg.norm(rows - z, axis=1))
        z = b @ rows / b.sum()
    assert np.linalg.norm(z) > 1e4
    assert np.linalg.norm(geometric(np.pad(rows, ((0, 0), (0, 1))), iterations=4, tolerance=1e-3, nu=1e-6)) < 1e-5


@pytest.mark.known_answer("coordinate_median")
@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_the_median_of_each_coordinate_is_numpys(count):
    np.testing.assert_allclose(median(RANDOM[:count]), np.median(RANDOM[:count], axis=0), rtol=1e-15)


def test_whole_weights_in_a_median_are_repeated_replies():
    times = [1, 4, 2, 1, 3, 1, 2]
    np.testing.assert_allclose(median(RANDOM, times), np.median(np.repeat(RANDOM, times, axis=0), axis=0), rtol=1e-15)


@pytest.mark.known_answer("trimmed_mean")
@pytest.mark.parametrize(("trim", "cut"), [(0.0, 0), (0.1, 1), (1 / 7, 1), (0.2, 2), (0.3, 3), (0.49, 3)])
def test_the_trimmed_mean_leaves_out_the_extremes_of_each_coordinate(trim, cut):
    middle = np.sort(RANDOM, axis=0)[cut : 7 - cut]
    np.testing.assert_allclose(trimmed(RANDOM, trim), middle.mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize(("trim", "replies", "cut"), [(0.07, 100, 7), (0.2, 35, 7), (0.2, 1, 0), (0.2, 2, 0), (0.4, 4, 1)])
def test_a_share_is_rounded_up_to_whole_replies_and_leaves_some(trim, replies, cut):
    rows = np.random.default_rng(1).standard_normal((replies, 3))
    np.testing.assert_allclose(trimmed(rows, trim), np.sort(rows, axis=0)[cut : replies - cut].mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "combine",
    [
        lambda rows, arrived: geometric(rows, WEIGHTS[: len(rows)], arrived),
        lambda rows, arrived: median(rows, WEIGHTS[: len(rows)], arrived),
        lambda rows, arrived: trimmed(rows, 0.2, arrived),
    ],
    ids=["rfa", "coordinate_median", "trimmed_mean"],
)
def test_a_lost_reply_enters_nothing_and_without_any_reply_nothing_moves(combine):
    held = RANDOM.copy()
    held[5], held[6] = np.nan, np.inf
    found = combine(held, [True] * 5 + [False] * 2)
    np.testing.assert_allclose(found, combine(RANDOM[:5], [True] * 5), rtol=1e-12)
    np.testing.assert_array_equal(combine(held, [False] * 7), 0.0)
