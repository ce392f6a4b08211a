"""The partitions of published tables: what every draw must satisfy, and small cases that can be counted by hand."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import partition

LABELS = np.repeat(np.arange(10), 600)  # ten classes of 600 rows
ROWS = np.arange(len(LABELS))


def counts(owner, clients):
    """[clients, 10] how many rows of each class a client has."""
    return np.stack([np.bincount(LABELS[owner == i], minlength=10) for i in range(clients)])


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_has_its_part_gets_no_more_of_the_classes_that_follow(seed):
    owner = partition.dirichlet(LABELS, 10, 0.5, least=10, balance=True)(np.random.default_rng(seed), ROWS)
    table = counts(owner, 10)
    before = np.cumsum(table, axis=1) - table
    assert table.sum() == len(ROWS) and table.sum(axis=1).min() >= 10
    assert np.all(table[before >= 600] == 0)
    assert np.any(before >= 600)  # the rule had something to do


def test_without_the_rule_clients_that_have_their_part_get_more():
    owner = partition.dirichlet(LABELS, 10, 0.5)(np.random.default_rng(0), ROWS)
    table = counts(owner, 10)
    assert np.any(table[np.cumsum(table, axis=1) - table >= 600] > 0)


def test_the_rule_leaves_two_clients_what_is_left():
    """Client 0 gets all of class 0, half of the rows, by a huge share: class 1 then is client 1's alone."""
    labels, rows = np.repeat([0, 1], 50), np.arange(100)
    for seed in range(50):
        owner = partition.dirichlet(labels, 2, 0.01, least=1, balance=True)(np.random.default_rng(seed), rows)
        assert sorted(np.bincount(owner)) == [50, 50] or np.bincount(owner[:50], minlength=2).max() < 50


@pytest.mark.parametrize("each", [1, 2, 3, 10])
def test_a_client_has_its_own_class_and_others_and_owners_of_a_class_share_it_equally(each):
    table = counts(partition.labels_each(LABELS, 20, each)(np.random.default_rng(each), ROWS), 20)
    assert np.all((table > 0).sum(axis=1) == each)
    assert all(table[i, i % 10] > 0 for i in range(20))
    for of_class in table.T:
        having = of_class[of_class > 0]
        assert having.sum() == 600 and having.max() - having.min() <= 1


def test_other_classes_are_drawn_anew_and_rows_too():
    first, second = (partition.labels_each(LABELS, 10, 2)(np.random.default_rng(s), ROWS) for s in range(2))
    assert not np.array_equal(counts(first, 10) > 0, counts(second, 10) > 0)
    only = [partition.labels_each(LABELS, 20, 1)(np.random.default_rng(s), ROWS) for s in range(2)]
    assert np.array_equal(*(counts(owner, 20) for owner in only)) and not np.array_equal(*only)


def test_pathological_clients_take_two_classes_each_in_turn_and_the_last_taker_gets_the_rest():
    """20 clients, 2 of 10 classes each: 4 clients a class, so clients 0 to 3 have classes 0 and 1, and so on. An equal part of
    a class is 150 rows: all but the last of four get 15 to 149."""
    table = counts(partition.pathological(LABELS, 20, 2, least=40)(np.random.default_rng(3), ROWS), 20)
    for k in range(10):
        takers = np.arange(4) + 4 * (k // 2)
        assert np.flatnonzero(table[:, k]).tolist() == takers.tolist() and table[:, k].sum() == 600
        assert np.all((table[takers[:-1], k] >= 15) & (table[takers[:-1], k] < 150)) and table[takers[-1], k] > 150
    assert table.sum(axis=1).min() >= 40


def test_classes_without_an_owner_are_refused():
    with pytest.raises(FedtierError, match="leaves some of 10 classes to nobody"):
        partition.labels_each(LABELS, 9, 2)
    with pytest.raises(FedtierError, match="leaves class"):
        partition.pathological(LABELS, 2, 2)(np.random.default_rng(0), ROWS)
    with pytest.raises(FedtierError, match="only 10 classes"):
        partition.labels_each(LABELS, 20, 11)
