"""Means and gradients in blocks of rows are those of all rows at once, whoever adds the blocks up."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.engines.devices import everywhere, on_all, total_over
from fedtier.federation import View, blocks, gradient_over_rows, in_turn, mean_over_rows, sharing_blocks
from fedtier.problem import Rows, cnn, cross_entropy, mlp, softmax

DEVICES = tuple(jax.devices())
NET = cnn(10, (3, 8, 8), (16, 16, 16))
WIDEST = 4 * 4 * 9 * 16 * 4  # bytes that its second stage makes of a row: 4 x 4 patches of 9 pixels of 16 channels


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 30])
def test_the_mean_over_a_window_is_numpy_s_mean_and_nan_when_it_is_empty(size):
    rng = np.random.default_rng(0)
    values, index, start = rng.standard_normal(40).astype(np.float32), rng.permutation(40), 10
    view = View(jnp.asarray(values), jnp.asarray(index), jnp.asarray(start), jnp.asarray(size))
    mean = jax.jit(lambda view: mean_over_rows(lambda rows: rows**2, view, most=8))(view)
    own = values[index[start : start + size]]
    np.testing.assert_allclose(mean, np.mean(own.astype(float) ** 2) if size else np.nan, rtol=1e-5)


def test_what_lies_outside_the_window_does_not_count_even_when_it_is_nan():
    values = jnp.array([jnp.nan, 1.0, 3.0, jnp.nan])
    view = View(values, jnp.arange(4), jnp.asarray(1), jnp.asarray(2))
    assert mean_over_rows(lambda rows: rows, view, most=2) == 2


def drawn_rows(size, features=192, weights=False):
    rng = np.random.default_rng(size)
    rows = Rows(rng.standard_normal((size, features)).astype(np.float32), rng.integers(0, 10, size))
    return rows._replace(weights=rng.uniform(0, 2, size).astype(np.float32)) if weights else rows


def counting(loss):
    """loss, and the numbers of rows that it was asked for."""
    asked = []

    def counted(x, rows):
        asked.append(rows.labels.shape[0])
        return loss(x, rows)

    return counted, asked


@pytest.mark.parametrize(("size", "weights"), [(48, False), (48, True), (40, False)])
def test_a_gradient_in_blocks_is_that_of_all_rows_at_once(size, weights, monkeypatch):
    monkeypatch.setattr(blocks, "ROOM", 9 * WIDEST)  # 8 rows divide both sizes
    x, rows = NET.init(jax.random.key(0)), drawn_rows(size, weights=weights)
    loss, asked = counting(cross_entropy(NET))
    found = jax.jit(functools.partial(gradient_over_rows, loss))(x, rows)
    assert set(asked) == {size, 8}  # all of them in the trace that looks how wide they are
    wanted = jax.grad(cross_entropy(NET))(x, rows)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())


def test_rows_that_no_good_number_divides_stay_together(monkeypatch):
    monkeypatch.setattr(blocks, "ROOM", 9 * WIDEST)
    x, (loss, asked) = NET.init(jax.random.key(0)), counting(cross_entropy(NET))
    jax.eval_shape(functools.partial(gradient_over_rows, loss), x, drawn_rows(47))
    assert set(asked) == {47}


@pytest.mark.parametrize("make", [lambda: softmax(192, 10), lambda: mlp(192, 10, hidden=256)])
def test_what_is_made_of_the_model_alone_takes_no_room(make):
    """All rows at once: a dense net makes less of a row than the row itself has, however many weights it has."""
    model, (loss, asked) = make(), counting(cross_entropy(make()))
    jax.eval_shape(functools.partial(gradient_over_rows, loss), model.init(jax.random.key(0)), drawn_rows(512))
    assert set(asked) == {512}
    jax.eval_shape(
        lambda x: mean_over_rows(lambda rows: loss(x, rows)[None], seen(drawn_rows(512))), model.init(jax.random.key(0))
    )
    assert set(asked) == {512, 256}


def seen(rows):
    arrays = jax.tree.map(jnp.asarray, rows)
    return View(arrays, jnp.arange(arrays.labels.shape[0]), jnp.asarray(0), jnp.asarray(arrays.labels.shape[0]))


def test_on_a_gpu_all_rows_stay_together(monkeypatch):
    monkeypatch.setattr(blocks, "ROOM", 1)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    loss, asked = counting(cross_entropy(softmax(192, 10)))
    jax.eval_shape(functools.partial(gradient_over_rows, loss), softmax(192, 10).init(None), drawn_rows(48))
    assert set(asked) == {48}


@pytest.mark.parametrize("size", [24, 40, 48, 136])
def test_however_many_cores_share_the_blocks_the_sum_is_the_same_to_the_bit(size, monkeypatch):
    """3, 5, 6 and 17 blocks; 17 are one group, which one core has alone."""
    monkeypatch.setattr(blocks, "ROOM", 9 * WIDEST)
    x, rows = NET.init(jax.random.key(0)), jax.tree.map(jnp.asarray, drawn_rows(size))

    def on(devices):
        def program(given):
            with sharing_blocks(total_over(devices)):
                return gradient_over_rows(cross_entropy(NET), *given)

        return jax.jit(on_all(devices, program))(everywhere((x, rows), devices))

    alone, together = on(DEVICES[:1]), on(DEVICES)
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sharing_ends_where_it_was_asked_for():
    def never(each, count, most, zero):
        raise AssertionError("asked")

    with pytest.raises(RuntimeError), sharing_blocks(never):
        assert blocks._total.get() is never
        raise RuntimeError
    assert blocks._total.get() is in_turn
