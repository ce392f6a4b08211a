"""Natural clients with few rows: refused, left out, or put together, and always named."""

from __future__ import annotations

import numpy as np
import pytest

from fedtier.datasets import load
from fedtier.datasets.owners import with_enough_rows
from fedtier.errors import FedtierError


def schools():
    """Four schools of 5, 1, 2 and 4 pupils."""
    owner = np.repeat(["north", "tiny", "small", "south"], [5, 1, 2, 4])
    return load("file", file={"x": np.arange(12.0) ** 2, "label": np.arange(12) % 2, "school": owner}, owner="school")


def test_small_owners_are_refused_by_name_with_both_ways_out():
    with pytest.raises(
        FedtierError, match=r"2 owners of fewer than 3 rows: small \(2\), tiny \(1\)[^$]*\"drop\"[^$]*\"merge\""
    ):
        with_enough_rows(schools(), 3)
    assert with_enough_rows(schools(), 1).owner_names == ("north", "small", "south", "tiny")


def test_small_owners_are_left_out_with_their_rows():
    data = with_enough_rows(schools(), 3, "drop")
    assert data.owner_names == ("north", "south") and data.owner.tolist() == [0] * 5 + [1] * 4
    assert data.raw.rows.columns["x"].tolist() == [k**2 for k in (0, 1, 2, 3, 4, 8, 9, 10, 11)]
    assert data.labels.tolist() == [0, 1, 0, 1, 0, 0, 1, 0, 1] and "left out: 2 owners" in data.notes[-1]


def test_small_owners_become_one_client():
    data = with_enough_rows(schools(), 3, "merge")
    assert data.owner_names == ("north", "south", "others") and data.rows == 12
    assert data.owner.tolist() == [0] * 5 + [2] * 3 + [1] * 4 and "tiny (1)" in data.notes[-1]


def test_a_rule_that_leaves_nobody_or_too_few_is_refused():
    with pytest.raises(FedtierError, match="nobody is left"):
        with_enough_rows(schools(), 100, "drop")
    with pytest.raises(FedtierError, match="even together too small"):
        with_enough_rows(schools(), 2, "merge")


def test_an_owner_who_is_called_others_stays_apart_from_the_merged_ones():
    owner = np.repeat(["others", "tiny", "small", "south"], [5, 1, 2, 4])
    data = load("file", file={"x": np.arange(12.0) ** 2, "label": np.arange(12) % 2, "school": owner}, owner="school")
    merged = with_enough_rows(data, 3, "merge")
    assert merged.owner_names == ("others", "south", "others (2)") and np.bincount(merged.owner).tolist() == [5, 4, 3]
    assert "'others (2)'" in merged.notes[-1]
