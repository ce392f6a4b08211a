"""Verbs over trees against NumPy on the flattened vector."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import trees


class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


X = {"w": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "b": [jnp.array(5.0), jnp.array([6.0])]}
Y = {"w": jnp.array([[0.0, 1.0], [0.0, -1.0]]), "b": [jnp.array(2.0), jnp.array([0.5])]}


def flat(tree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_the_verbs_are_those_of_the_flat_vector():
    x, y = flat(X), flat(Y)
    np.testing.assert_allclose(flat(trees.axpy(-2.0, X, Y)), -2 * x + y)
    np.testing.assert_allclose(flat(trees.add(X, Y)), x + y)
    np.testing.assert_allclose(flat(trees.sub(X, Y)), x - y)
    np.testing.assert_allclose(flat(trees.scale(3, X)), 3 * x)
    assert trees.dot(X, Y) == pytest.approx(x @ y)
    assert trees.norm(X) == pytest.approx(np.linalg.norm(x))
    assert trees.size(X) == 6 and not flat(trees.zeros_like(X)).any()
    assert trees.dot((), ()) == trees.norm({"w": None}) == 0


def test_a_wide_scalar_does_not_widen_a_narrow_model():
    x = {"half": jnp.ones(2, jnp.bfloat16), "single": jnp.ones(2, jnp.float32)}
    for out in (trees.axpy(np.float64(0.1), x, x), trees.scale(np.float64(0.1), x)):
        assert out["half"].dtype == jnp.bfloat16 and out["single"].dtype == jnp.float32


def test_take_undoes_stack():
    stacked = trees.stack([X, Y])
    for row, tree in enumerate((X, Y)):
        np.testing.assert_array_equal(flat(trees.take(stacked, row)), flat(tree))


def test_where_chooses_a_whole_tree():
    assert np.array_equal(flat(trees.where(jnp.asarray(True), X, Y)), flat(X))
    assert np.array_equal(flat(trees.where(jnp.asarray(False), X, Y)), flat(Y))


def test_the_mean_leaves_out_rows_that_did_not_arrive_even_when_they_are_nan():
    rows = {"a": jnp.array([[1.0], [jnp.nan], [4.0]])}
    arrived = jnp.array([True, False, True])
    assert trees.mean_over(arrived, rows)["a"][0] == 2.5
    assert trees.mean_over(arrived, rows, jnp.array([3.0, 5.0, 1.0]))["a"][0] == pytest.approx((3 * 1 + 1 * 4) / 4)


def test_the_mean_of_nobody_is_zero():
    rows = {"a": jnp.full((3, 2), jnp.inf)}
    np.testing.assert_array_equal(trees.mean_over(jnp.zeros(3, bool), rows)["a"], [0, 0])
    np.testing.assert_array_equal(trees.weighted_sum(jnp.zeros(3), rows)["a"], [0, 0])


def test_one_bad_number_makes_a_tree_not_finite_and_integers_are_always_finite():
    assert trees.all_finite(X) and trees.all_finite(()) and trees.all_finite({"n": jnp.arange(3)})
    assert not trees.all_finite({"a": jnp.ones(3), "b": jnp.array([1.0, jnp.inf])})
    assert not trees.all_finite(jnp.array(jnp.nan))


def test_leaves_have_readable_names_in_their_order():
    assert trees.names(X) == ["b.0", "b.1", "w"]
    assert trees.names(Pair({"k": jnp.ones(1)}, jnp.ones(1))) == ["a.k", "b"]
    assert trees.names(jnp.ones(1)) == ["value"] and trees.names(()) == []


def test_the_inner_product_on_a_gpu_is_that_on_a_cpu(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = ({"w": jnp.asarray(rng.standard_normal((30, 4))), "b": jnp.asarray(rng.standard_normal(4))} for _ in range(2))
    here = float(trees.dot(a, b))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert float(trees.dot(a, b)) == pytest.approx(here, rel=1e-5)
