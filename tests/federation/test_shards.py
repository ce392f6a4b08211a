"""Windows on flat data: they tile a permutation of the rows, and a draw never leaves its own window."""

from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.federation import Federation, Spared, View, build, partition, rows_at, sample, with_seat


def federation_of(rows: int, clients: int, seed: int = 0, **shares) -> Federation:
    arrays = {"id": np.arange(rows, dtype=np.int32), "x": np.arange(rows, dtype=np.float32)[:, None] * np.ones(2, np.float32)}
    return build(arrays, partition.iid(clients, least=2), clients=clients, rng=np.random.default_rng(seed), **shares)


def half_up(share: float, total: int) -> int:
    return int((Decimal(str(share)) * int(total)).quantize(Decimal(1), ROUND_HALF_UP))


def percent(least: int, most: int):
    return st.integers(least, most).map(lambda p: p / 100)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(60, 200),
    clients=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    server=percent(0, 60),
    test=percent(0, 40),
    held=percent(0, 99),
)
def test_the_windows_tile_a_permutation_of_the_rows_in_the_asked_shares(rows, clients, seed, server, test, held):
    f = federation_of(rows, clients, seed, server_share=server, test_share=test, client_test_share=held)
    assert sorted(np.asarray(f.index).tolist()) == list(range(rows))
    windows = [f.test, f.server]
    for i in range(clients):
        windows += [jax.tree.map(lambda a, i=i: a[i], f.train), jax.tree.map(lambda a, i=i: a[i], f.held)]
    position = 0
    for window in windows:
        assert int(window.start) == position and int(window.size) >= 0
        position += int(window.size)
    assert position == rows
    assert int(f.test.size) == half_up(test, rows)
    assert int(f.server.size) == half_up(server, rows - int(f.test.size))
    sizes = np.asarray(f.train.size) + np.asarray(f.held.size)
    assert np.asarray(f.train.size).min() >= 1
    assert np.asarray(f.held.size).tolist() == [min(half_up(held, size), size - 1) for size in sizes.tolist()]
    assert f.clients == clients


def test_with_a_generator_for_the_test_rows_other_seeds_share_them_and_deal_the_rest_anew():
    one, two = (federation_of(80, 3, seed, test_share=0.25, test_rng=np.random.default_rng(7)) for seed in (0, 1))
    assert int(one.test.size) == 20
    assert np.array_equal(one.index[:20], two.index[:20])
    assert not np.array_equal(one.index[20:], two.index[20:])
    assert sorted(np.asarray(two.index).tolist()) == list(range(80))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), small=st.lists(st.integers(2, 4), min_size=1, max_size=30), fixed=st.booleans())
@pytest.mark.slow
def test_owners_of_two_rows_keep_them_whatever_is_drawn_for_test_and_server(seed, small, fixed):
    owner = np.repeat(np.arange(len(small) + 1), [*small, 400])
    drawn = build(
        np.arange(len(owner)), partition.natural(owner, least=2), clients=len(small) + 1, rng=np.random.default_rng(seed),
        test_share=0.2, server_share=0.5, client_test_share=0.2, spared=Spared(owner, 2),
        test_rng=np.random.default_rng(7) if fixed else None,
    )  # fmt: skip
    assert sorted(np.asarray(drawn.index).tolist()) == list(range(len(owner)))
    assert int(drawn.test.size) == round(0.2 * len(owner))
    assert np.min(np.asarray(drawn.train.size) + np.asarray(drawn.held.size)) >= 2
    if fixed:
        again = build(
            np.arange(len(owner)), partition.natural(owner, least=2), clients=len(small) + 1,
            rng=np.random.default_rng(seed + 1), test_share=0.2, server_share=0.5, spared=Spared(owner, 2),
            test_rng=np.random.default_rng(7),
        )  # fmt: skip
        tested = int(drawn.test.size)
        np.testing.assert_array_equal(drawn.index[:tested], again.index[:tested])


def test_where_every_owner_has_enough_rows_sparing_changes_nothing():
    owner = np.repeat(np.arange(4), 50)
    made = {"assign": partition.natural(owner), "clients": 4, "client_test_share": 0.2}
    one, two = (
        build(np.arange(200), rng=np.random.default_rng(3), **made, **more) for more in ({}, {"spared": Spared(owner, 2)})
    )
    np.testing.assert_array_equal(one.index, two.index)


def test_owners_who_cannot_keep_their_rows_are_refused():
    owner = np.repeat(np.arange(10), 3)
    with pytest.raises(FedtierError, match="owners cannot keep 2 rows beside the test and the server"):
        build(
            np.arange(30), partition.natural(owner), clients=10, rng=np.random.default_rng(0), test_share=0.3,
            server_share=0.5, spared=Spared(owner, 2),
        )  # fmt: skip


def test_held_back_rows_have_the_classes_of_their_client_in_proportion():
    rng = np.random.default_rng(0)
    owner, labels = rng.integers(0, 5, 4000), rng.choice(3, 4000, p=[0.6, 0.3, 0.1])
    f = build(
        np.arange(4000), partition.natural(owner), clients=5, rng=np.random.default_rng(1), client_test_share=0.2, strata=labels
    )
    index = np.asarray(f.index)
    for i in range(5):
        start, train, held = (int(a[i]) for a in (f.train.start, f.train.size, f.held.size))
        mine = np.bincount(labels[index[start : start + train + held]], minlength=3)
        back = np.bincount(labels[index[start + train : start + train + held]], minlength=3)
        assert np.all(np.abs(back - mine * held / mine.sum()) <= 2)  # by chance alone: up to 15
        assert np.all(owner[index[start : start + train + held]] == i)


def test_weights_are_shares_of_the_training_rows_with_mean_1():
    owner = np.repeat([0, 1, 2], [10, 20, 70])
    f = build(np.zeros((100, 1), np.float32), partition.natural(owner), clients=3, rng=np.random.default_rng(0),
              server_share=0.0, test_share=0.0)  # fmt: skip
    np.testing.assert_allclose(f.spec.weight, [0.3, 0.6, 2.1], rtol=1e-6)
    assert np.isinf(f.spec.radius).all() and (np.asarray(f.spec.step_scale) == 1).all()


def test_natural_owners_keep_their_rows():
    owner = np.tile([0, 1, 2], 20)
    f = build({"owner": owner}, partition.natural(owner), clients=3, rng=np.random.default_rng(0), client_test_share=0.3)
    for window in (f.train, f.held):
        for i in range(3):
            rows = f.index[int(window.start[i]) : int(window.start[i] + window.size[i])]
            assert set(owner[np.asarray(rows)].tolist()) == {i}


def test_the_seat_is_one_more_client_with_the_rows_of_the_server():
    owner = np.repeat([0, 1], [30, 70])
    f = build(np.zeros((200, 1), np.float32), lambda rng, rows: owner[: len(rows)], clients=2, rng=np.random.default_rng(0),
              server_share=0.5, test_share=0.0)  # fmt: skip
    seated = with_seat(f)
    assert seated.clients == 3
    assert int(seated.train.start[2]) == int(f.server.start) and int(seated.train.size[2]) == 100
    assert int(seated.held.size[2]) == 0
    np.testing.assert_allclose(seated.spec.weight, [0.6, 1.4, 2.0], rtol=1e-6)  # 30, 70 and 100 rows over a mean of 50
    assert np.isinf(seated.spec.radius[2]) and seated.spec.step_scale[2] == 1
    np.testing.assert_array_equal(seated.index, f.index)


def test_a_draw_sees_only_its_own_window_and_sees_it_uniformly():
    f = federation_of(200, 5, server_share=0.3, test_share=0.1)
    window = jax.tree.map(lambda a: a[2], f.train)
    batch = sample(f.view(window), keys.root(7), 20_000)
    own = np.asarray(f.index)[int(window.start) : int(window.start) + int(window.size)]
    counts = np.bincount(np.asarray(batch["id"]), minlength=200)
    assert counts[own].sum() == 20_000
    assert stats.chisquare(counts[own]).pvalue > 1e-3
    np.testing.assert_array_equal(batch["x"][:, 0], np.asarray(batch["id"], np.float32))  # leaves stay row by row


@pytest.mark.parametrize("shape", [(), (3,), (200,), (1, 12, 12)])
def test_rows_are_numpy_s_rows_however_wide_they_are_and_under_vmap(shape):
    rows = np.random.default_rng(0).integers(0, 255, (30, *shape)).astype(np.uint8)
    view = View(jnp.asarray(rows), jnp.arange(30), jnp.asarray(0), jnp.asarray(30))
    numbers = np.array([[3, 29, 0, 3], [7, 7, 28, 1]])
    np.testing.assert_array_equal(jax.jit(lambda n: rows_at(view, n))(jnp.asarray(numbers[0])), rows[numbers[0]])
    np.testing.assert_array_equal(jax.vmap(lambda n: rows_at(view, n))(jnp.asarray(numbers)), rows[numbers])


@pytest.mark.slow
def test_different_clients_draw_under_vmap_from_different_windows():
    f = federation_of(100, 4)
    draw = jax.vmap(lambda window, key: sample(f.view(window), key, 50)["id"])
    ids = draw(f.train, jax.vmap(lambda i: keys.at(keys.root(0), i))(jnp.arange(4)))
    seen = [set(np.asarray(row).tolist()) for row in ids]
    assert all(not (seen[i] & seen[j]) for i in range(4) for j in range(i))


class OwnSpec(NamedTuple):
    weight: np.ndarray
    step_scale: np.ndarray
    matrix: np.ndarray


def test_a_spec_of_one_s_own_is_kept_leaf_by_leaf():
    spec = OwnSpec(np.ones(2), np.ones(2), np.arange(8).reshape(2, 2, 2))
    f = federation_of(50, 2, spec=spec)
    np.testing.assert_array_equal(f.spec.matrix, spec.matrix)
    assert with_seat(f).spec.matrix.shape == (3, 2, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrays": {"a": np.zeros(30), "b": np.zeros(31)}}, "same number of rows"),
        ({"arrays": {"a": np.r_[np.zeros(17), np.nan, np.zeros(12)]}}, "row 17"),
        ({"arrays": {"a": np.r_[np.zeros(29), -np.inf]}}, "row 29"),
        ({"arrays": {}}, "same number of rows"),
        ({"test_share": 1.0}, "test_share"),
        ({"server_share": -0.1}, "server_share"),
        ({"client_test_share": float("nan")}, "client_test_share"),
        ({"spec": OwnSpec(np.ones(3), np.ones(2), np.ones(2))}, "2 clients"),
        ({"spec": {"weight": np.ones(2)}}, "must have a field"),
        ({"assign": lambda rng, rows: np.zeros(len(rows), int)}, "client 1 has no rows"),
        ({"assign": lambda rng, rows: np.full(len(rows), 2)}, "from 0 to 1"),
        ({"assign": lambda rng, rows: np.zeros(3, int)}, "rows"),
    ],
)
def test_impossible_federations_are_refused(change, words):
    asked = {"arrays": np.zeros((30, 1)), "assign": partition.iid(2), "clients": 2, "rng": np.random.default_rng(0)} | change
    with pytest.raises(FedtierError, match=words):
        build(asked.pop("arrays"), asked.pop("assign"), **asked)
