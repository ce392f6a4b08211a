"""Partitions: every row has one owner, every client has rows, and what cannot work says so at once."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtier.errors import FedtierError
from fedtier.federation import partition

KINDS = {
    "iid": lambda labels, clients, alpha: partition.iid(clients),
    "dirichlet": partition.dirichlet,
    "classes": lambda labels, clients, alpha: partition.classes(labels, clients, 2),
    "quantity": lambda labels, clients, alpha: partition.quantity(clients, alpha),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    clients=st.integers(1, 8),
    extra=st.integers(0, 100),
    classes=st.integers(1, 5),
    alpha=st.floats(1.0, 1000.0),
)
def test_every_row_has_one_owner_and_every_client_has_rows(kind, seed, clients, extra, classes, alpha):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, 200)
    rows = rng.permutation(200)[: 20 * clients + extra]
    try:
        owner = KINDS[kind](labels, clients, alpha)(rng, rows)
    except FedtierError as error:
        assert error.hint  # unlucky shares: refused with a way out, never half done
        return
    assert owner.shape == rows.shape
    assert set(owner.tolist()) == set(range(clients))


def test_iid_shares_differ_by_one_row_at_most():
    owner = partition.iid(7)(np.random.default_rng(0), np.arange(100))
    counts = np.bincount(owner)
    assert counts.max() - counts.min() <= 1 and counts.sum() == 100


def test_a_large_alpha_gives_equal_shares_of_every_class():
    labels = np.repeat(np.arange(4), 500)
    owner = partition.dirichlet(labels, 5, 1e6)(np.random.default_rng(0), np.arange(2000))
    table = np.histogram2d(labels, owner, bins=(4, 5))[0]
    np.testing.assert_allclose(table, np.full((4, 5), 100), atol=3)


def test_a_small_alpha_gives_a_client_few_classes():
    labels = np.repeat(np.arange(10), 200)
    owner = partition.dirichlet(labels, 5, 0.05)(np.random.default_rng(0), np.arange(2000))
    table = np.histogram2d(labels, owner, bins=(10, 5))[0]
    assert (table.max(axis=1) / 200).mean() > 0.8  # most of a class sits with one client


def test_the_shares_of_a_class_have_the_mean_and_variance_of_a_dirichlet_draw():
    clients, alpha, rows = 4, 1.5, 1000
    labels = np.zeros(rows, int)
    rng = np.random.default_rng(3)
    assign = partition.dirichlet(labels, clients, alpha, least=0)
    shares = np.stack([np.bincount(assign(rng, np.arange(rows)), minlength=clients) / rows for _ in range(1000)])
    np.testing.assert_allclose(shares.mean(axis=0), np.full(clients, 1 / clients), atol=0.02)
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    np.testing.assert_allclose(shares.var(axis=0), np.full(clients, variance), rtol=0.15)


@pytest.mark.parametrize("alpha", [1e-300, 1e-6, 0.01])
def test_a_tiny_alpha_ends_soon_with_every_client_served_or_an_error_with_a_hint(alpha):
    labels = np.repeat(np.arange(10), 100)
    clock = time.process_time()
    try:
        owner = partition.dirichlet(labels, 10, alpha, least=2)(np.random.default_rng(0), np.arange(1000))
        assert np.bincount(owner, minlength=10).min() >= 2
    except FedtierError as error:
        assert "after 200 draws" in str(error) and "raise alpha" in error.hint
    assert time.process_time() - clock < 10


def test_shards_of_classes_give_a_client_no_more_classes_than_its_shards_can_hold():
    labels = np.repeat(np.arange(10), 100)
    owner = partition.classes(labels, 10, 2)(np.random.default_rng(0), np.arange(1000))
    assert np.bincount(owner).tolist() == [100] * 10
    assert max(len(np.unique(labels[owner == i])) for i in range(10)) <= 2  # shards of 50 lie inside a class of 100


def test_quantity_skew_keeps_the_mix_of_classes():
    labels = np.tile(np.arange(2), 5000)
    owner = partition.quantity(3, 2.0)(np.random.default_rng(1), np.arange(10000))
    counts = np.bincount(owner)
    assert counts.max() > 1.2 * counts.min()
    for i in range(3):
        assert labels[owner == i].mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(counts[i]))


def test_natural_owners_are_read_as_they_are():
    owner = np.array([2, 0, 1, 1, 0, 2])
    rows = np.array([5, 3, 0, 1, 2])
    assert partition.natural(owner)(np.random.default_rng(0), rows).tolist() == [2, 1, 2, 0, 1]


def test_a_natural_client_without_rows_is_an_error_that_names_it():
    with pytest.raises(FedtierError, match="client 1 has 0 rows") as caught:
        partition.natural(np.array([0, 0, 2, 2]))(np.random.default_rng(0), np.arange(4))
    assert caught.value.hint


def test_more_clients_than_rows_are_refused():
    with pytest.raises(FedtierError, match="3 rows cannot give"):
        partition.iid(4)(np.random.default_rng(0), np.arange(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: partition.iid(0),
        lambda: partition.dirichlet(np.zeros(3, int), 2, 0.0),
        lambda: partition.dirichlet(np.zeros(3, int), 2, float("inf")),
        lambda: partition.dirichlet(np.zeros(3, int), 2, float("nan")),
        lambda: partition.classes(np.zeros(3, int), 2, 0),
        lambda: partition.quantity(2, -1.0),
        lambda: partition.natural(np.array([-1, 0])),
        lambda: partition.natural(np.array(["a", "b"])),
        lambda: partition.natural(np.array([0.5, 1.0])),
    ],
)
def test_impossible_partitions_are_refused(make):
    with pytest.raises(FedtierError):
        make()
