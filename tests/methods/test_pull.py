"""The pull of the clients on the server: how far an estimate holds, and whose estimates are remembered."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.federation import View
from fedtier.methods import projected_sgd
from fedtier.methods.method import Round
from fedtier.methods.two_levels.pull import NOBODY, Estimate, measured_share, none, pull_of
from fedtier.problem import Rows, Spec, supervised

VIEW = View((), jnp.zeros(0, jnp.int32), jnp.asarray(0), jnp.asarray(0))


def round_with(ids, arrived=None, clients=10):
    came = jnp.ones(len(ids), bool) if arrived is None else jnp.asarray(arrived)
    return Round(jnp.asarray(0), jnp.asarray(ids, jnp.int32), came, clients, VIEW, keys.root(0))


def replies(rows, f2=None):
    g = jnp.asarray(rows, jnp.float32)
    return Estimate(g, jnp.ones(len(rows)) if f2 is None else jnp.asarray(f2, jnp.float32), jnp.ones(len(rows)))


@pytest.mark.slow
def test_of_a_quadratic_coupling_the_pull_is_the_gradient_all_the_way_to_its_minimum_and_0_beyond():
    """f2(x) = 3/2 |x - c|^2 with a personal model c that stays: its gradient along the line through c is known."""
    c, x = jnp.asarray([1.0, -2.0, 0.5]), jnp.asarray([2.0, 0.0, 1.5])
    g, f2 = 3 * (x - c), 1.5 * jnp.sum((x - c) ** 2)
    pull, _ = pull_of(Estimate(g[None], f2[None], jnp.ones(1)), x, (), round_with([0]), fading=True)
    for way in (0.0, 0.25, 0.9, 1.0):
        here = x + way * (c - x)
        np.testing.assert_allclose(pull(here), 3 * (here - c), atol=1e-5)
    np.testing.assert_array_equal(pull(x + 1.5 * (c - x)), np.zeros(3))
    np.testing.assert_allclose(pull(x - 5.0 * (c - x)), 2 * g)  # uphill it grows, to twice the estimate


def test_across_the_estimate_and_without_fading_the_pull_stays():
    x, g = jnp.zeros(2), jnp.asarray([[1.0, 0.0]])
    estimate = Estimate(g, jnp.ones(1), jnp.ones(1))
    fading, steady = (pull_of(estimate, x, (), round_with([0]), fading=fading)[0] for fading in (True, False))
    np.testing.assert_allclose(fading(jnp.asarray([0.0, 7.0])), g[0])
    np.testing.assert_allclose(steady(jnp.asarray([-100.0, 7.0])), g[0])


@pytest.mark.slow
def test_a_stretched_estimate_fades_by_the_slope_that_was_measured():
    """One random direction of n = 100: g is 100 s v, f2 falls by s a unit and is 0 after 2 f2 / s."""
    v, s, f2 = jnp.zeros(100).at[3].set(1.0), 0.5, 2.0
    g = 100 * s * v
    share = measured_share(s * v, g)
    assert float(share) == pytest.approx(0.01)
    pull, _ = pull_of(Estimate(g[None], jnp.full(1, f2), share[None]), jnp.zeros(100), (), round_with([0]), fading=True)
    np.testing.assert_allclose(pull(-0.5 * (2 * f2 / s) * v), g / 2, rtol=1e-5)
    np.testing.assert_allclose(pull(-1.0 * (2 * f2 / s) * v), 0 * g, atol=1e-4)


@pytest.mark.slow
@pytest.mark.checked
def test_the_memory_has_the_latest_reply_of_each_client_and_forgets_the_oldest():
    x, memory = jnp.zeros(1), none(jnp.zeros(1), 3)
    for ids, values in (([4, 7], [1.0, 2.0]), ([4], [3.0]), ([5], [4.0]), ([6], [5.0])):
        pull, memory = pull_of(replies([[v] for v in values]), x, memory, round_with(ids), fading=False)
    assert memory.client.tolist() == [6, 5, 4]  # 7 was the oldest
    assert memory.estimates.g[:, 0].tolist() == [5.0, 4.0, 3.0]
    np.testing.assert_allclose(pull(x), [(5 + 4 + 3 + 2) / 4])  # of the last round: three remembered ones and one that arrived


@pytest.mark.slow
def test_the_memory_does_not_depend_on_the_order_of_the_cohort():
    x, ids, values = jnp.zeros(1), [5, 2, 9], [[1.0], [2.0], [3.0]]
    found = [pull_of(replies(values[::s]), x, none(x, 2), round_with(ids[::s]), fading=True)[1] for s in (1, -1)]
    assert found[0].client.tolist() == found[1].client.tolist() == [2, 5]
    assert found[0].estimates.g.tolist() == found[1].estimates.g.tolist()


@pytest.mark.slow
def test_unheard_clients_count_as_0_and_a_full_house_is_the_mean():
    x, memory = jnp.zeros(1), none(jnp.zeros(1), 4)
    pull, memory = pull_of(replies([[8.0]]), x, memory, round_with([0], clients=4), fading=False)
    np.testing.assert_allclose(pull(x), [2.0])
    pull, memory = pull_of(replies([[1.0], [2.0], [3.0]]), x, memory, round_with([1, 2, 3], clients=4), fading=False)
    np.testing.assert_allclose(pull(x), [3.5])


@pytest.mark.parametrize("fading", [False, True])
def test_spread_an_estimate_counts_as_one_round_in_all_and_a_full_house_is_the_mean(fading):
    """Four clients take turns, one a round: once all are known, the pulls of four rounds add up to the sum over clients / 4."""
    x, memory, pulls = jnp.zeros(1), none(jnp.zeros(1), 4), []
    for i in [0, 1, 2, 3] * 2:
        pull, memory = pull_of(replies([[2.0**i]]), x, memory, round_with([i], clients=4), fading, spread=1.0)
        pulls.append(float(pull(x)[0]))
    assert sum(pulls[4:]) == pytest.approx((1 + 2 + 4 + 8) / 4)
    everybody = round_with([0, 1, 2, 3], clients=4)
    full, memory = pull_of(replies([[1.0], [2.0], [3.0], [6.0]]), x, memory, everybody, fading, spread=1.0)
    np.testing.assert_allclose(full(x), [3.0])
    silent, _ = pull_of(replies([[9.0]]), x, memory, round_with([2], [False], clients=4), fading, spread=1.0)
    np.testing.assert_array_equal(silent(x), [0.0])


def test_where_there_are_more_clients_than_rows_a_round_is_shared_by_as_many_as_are_known():
    """A thousand clients, two a round and two remembered: an estimate acts in two rounds, by a half in each."""
    x, memory, pulls = jnp.zeros(1), none(jnp.zeros(1), 2), []
    for ids in ([0, 1], [2, 3], [4, 5]):
        one = replies([[1.0 if i == 2 else 0.0] for i in ids])
        pull, memory = pull_of(one, x, memory, round_with(ids, clients=1000), fading=False, spread=1.0)
        pulls.append(float(pull(x)[0]))
    assert pulls == [0.0, 0.125, 0.125]  # of two such rounds together: a quarter, as of four clients in a mean


@pytest.mark.parametrize(("answers", "factor"), [(1, 0.5), (2, 1.0), (4, 1.0)])
def test_only_rounds_with_a_smaller_share_of_answers_than_spread_pull_less(answers, factor):
    x, memory = jnp.zeros(1), none(jnp.zeros(1), 4)
    _, memory = pull_of(replies([[4.0]] * 4), x, memory, round_with([0, 1, 2, 3], clients=4), fading=False, spread=0.5)
    pull, _ = pull_of(
        replies([[4.0]] * answers), x, memory, round_with(list(range(answers)), clients=4), fading=False, spread=0.5
    )
    np.testing.assert_allclose(pull(x), [4.0 * factor])


def test_lost_replies_and_those_that_say_nothing_are_no_answers():
    """Of ten clients four are asked; one reply is lost, one client made no step: two of ten, two thirds of 0.3."""
    x, memory = jnp.zeros(1), none(jnp.zeros(1), 10)
    _, memory = pull_of(replies([[6.0]] * 10), x, memory, round_with(list(range(10))), fading=False, spread=0.3)
    some = round_with([0, 1, 2, 3], [True, False, True, True])
    pull, _ = pull_of(replies([[6.0], [np.nan], [0.0], [6.0]], f2=[1.0, np.nan, 0.0, 1.0]), x, memory, some, False, spread=0.3)
    np.testing.assert_allclose(pull(x), [6.0 * 2 / 3], rtol=1e-6)


def test_with_one_answer_of_ten_a_third_of_a_penalty_is_a_tenth_of_ten_thirds_of_it():
    """What the recommended settings were measured with: penalty 100 and spread = 1, there the same as 30 and 0.3."""
    x, pulls = jnp.zeros(1), []
    for penalty, spread in ((30.0, 0.3), (100.0, 1.0)):
        memory = none(x, 10)
        _, memory = pull_of(replies([[penalty]] * 10), x, memory, round_with(list(range(10))), fading=False, spread=spread)
        pull, _ = pull_of(replies([[2 * penalty]]), x, memory, round_with([4]), fading=False, spread=spread)
        pulls.append(float(pull(x)[0]))
    assert pulls == pytest.approx([11.0, 11.0])


@pytest.mark.parametrize("fading", [False, True])
@pytest.mark.slow
def test_what_did_not_arrive_or_says_nothing_leaves_no_trace(fading):
    x, memory = jnp.ones(2), none(jnp.ones(2), 3)
    _, memory = pull_of(replies([[1.0, 2.0]]), x, memory, round_with([0]), fading)
    lost = replies([[np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0]], f2=[np.nan, 1.0, 0.0])  # client 0 made no step
    pull, after = pull_of(lost, x, memory, round_with([1, 2, 0], [False, False, True]), fading)
    np.testing.assert_allclose(pull(x), [1 / 6, 2 / 6], rtol=1e-6)  # one known of six: three asked, three remembered
    for before, now in zip(jax.tree.leaves(memory), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(before, now)
    assert after.client.tolist() == [0, NOBODY, NOBODY]


def curved(curvature):
    """h = curvature/2 |y - 1|^2, whatever the rows say."""
    loss = lambda x, rows: 0.5 * curvature * jnp.sum((x - 1.0) ** 2)  # noqa: E731
    return supervised(loss, penalty=1.0)


def one_client():
    rows = Rows(jnp.zeros((4, 1)), jnp.zeros(4, jnp.int32))
    return View(rows, jnp.arange(4), jnp.asarray(0), jnp.asarray(4)), Spec(jnp.asarray(1.0), jnp.inf, jnp.asarray(1.0))


@pytest.mark.parametrize(("curvature", "factor"), [(1.0, 1.0), (9.9, 1.0), (40.0, 0.25), (1e4, 1e-3)])
@pytest.mark.slow
def test_the_factor_of_a_quadratic_is_1_over_step_and_curvature(curvature, factor):
    view, spec = one_client()
    found = projected_sgd(0.1, bounded=True).factor(curved(curvature), jnp.zeros(3), jnp.zeros(3), view, spec, keys.root(0))
    assert float(found) == pytest.approx(factor, rel=1e-5)


def test_bounded_steps_reach_the_minimum_where_the_same_steps_explode():
    view, spec = one_client()
    for bounded in (True, False):
        solve = projected_sgd(0.1, bounded=bounded).lower_level(curved(1e4))
        y = solve(jnp.zeros(3), jnp.zeros(3), view, spec, 30, keys.root(0))
        error = float(jnp.max(jnp.abs(y - 1.0)))
        assert error < 1e-5 if bounded else not error < 1e20


def test_a_loss_that_is_not_finite_has_no_factor():
    view, spec = one_client()
    found = projected_sgd(0.1, bounded=True).factor(curved(1e30), jnp.zeros(3), jnp.zeros(3), view, spec, keys.root(0))
    assert np.isnan(found)


def test_a_client_that_starts_at_its_minimum_keeps_its_steps():
    view, spec = one_client()
    found = projected_sgd(0.1, bounded=True).factor(curved(40.0), jnp.ones(3), jnp.ones(3), view, spec, keys.root(0))
    assert float(found) == 1.0


def test_an_own_solver_is_left_alone():
    view, spec = one_client()
    own = curved(1e4)._replace(solve=lambda x, start, view, spec, steps, key: start + 1.0)
    assert projected_sgd(0.1, bounded=True).factor(own, jnp.zeros(3), jnp.zeros(3), view, spec, keys.root(0)) == 1.0
