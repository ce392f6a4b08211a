"""What is predicted: classes or numbers, chosen by the label's column or named; names are kept."""

from __future__ import annotations

import numpy as np
import pytest

from fedtier.datasets.labels import known, ordered, target
from fedtier.datasets.table import as_words, column_of, words
from fedtier.errors import FedtierError


def labelled(values, task="auto"):
    return target("y", column_of("y", values), task)


@pytest.mark.parametrize(
    ("values", "classes", "codes"),
    [
        (["well", "ill", "ill"], ("ill", "well"), [1, 0, 0]),
        ([10, 2, -1], ("-1", "2", "10"), [2, 1, 0]),
        ([10.0, 2.0, -1.0], ("-1", "2", "10"), [2, 1, 0]),
        (["10", "2", "-1"], ("-1", "2", "10"), [2, 1, 0]),
        ([True, False, True], ("0", "1"), [1, 0, 1]),
        (np.array(["1", "b", "a"]), ("1", "a", "b"), [0, 2, 1]),
        ([0.5, 1.5, 0.5], ("0.5", "1.5"), [0, 1, 0]),  # two values are two classes, whatever they are
    ],
)
def test_words_and_few_whole_numbers_are_classes_in_their_own_order(values, classes, codes):
    found = labelled(values)
    assert found.classes == classes and found.values.tolist() == codes and found.values.dtype == np.int32


def test_true_and_false_as_a_file_spells_them_keep_their_names():
    assert target("y", words(["True", "False", "True"])).classes == ("False", "True")


@pytest.mark.parametrize("values", [np.linspace(0, 1, 200), np.arange(200), [0.1, 0.2, 0.35], np.arange(30) * 1.0])
def test_many_or_broken_numbers_are_the_target_of_a_regression(values):
    found = labelled(values)
    assert found.classes == () and found.values.tolist() == np.asarray(values, float).tolist()
    assert "different numbers" in found.why


def test_whole_numbers_with_enough_rows_each_are_classes():
    many = np.tile(np.arange(62), 20)  # like the 62 classes of handwriting
    assert len(labelled(many).classes) == 62 and labelled(np.arange(62)).classes == ()


def test_the_task_may_be_named_and_is_refused_where_it_cannot_be():
    assert labelled([1, 2, 1], "regression").values.tolist() == [1.0, 2.0, 1.0]
    assert len(labelled(np.arange(200), "classification").classes) == 200
    assert labelled([3, 4, 4], "binary").classes == ("3", "4")
    for values, task, message in (
        (["a", "b"], "regression", "the label y holds words"),
        ([1, 2, 3], "binary", "has 3 values, not 2"),
        ([1, 1, 1], "auto", "is the same in all rows"),
        (["a", "a"], "auto", "is the same in all rows"),
        ([1.0, np.nan, 2.0], "auto", "is missing in row 1"),
        (["a", None, "", "b"], "auto", "is missing in row 1, as in 1 rows more"),
        ([1.0, np.inf, 2.0], "auto", "is missing in row 1"),
        ([f"name {k}" for k in range(60)], "auto", "holds 60 different texts in 60 rows"),
    ):
        with pytest.raises(FedtierError, match=message):
            labelled(values, task)


def test_owners_are_ordered_as_numbers_where_they_are_numbers_and_codes_stay_apart():
    codes, names = ordered("owner", as_words(column_of("o", [30, 7, 7, 100])))
    assert names == ("7", "30", "100") and codes.tolist() == [1, 0, 0, 2]
    assert ordered("owner", words(["007", "7", "07"]))[1] == ("007", "07", "7")


def test_a_site_s_labels_are_matched_by_name_however_they_are_written():
    for column in (column_of("y", [2, 1, 2]), column_of("y", [2.0, 1.0, 2.0]), words(["2", "1.0", "2"])):
        assert known("y", column, ("1", "2", "3")).tolist() == [1, 0, 1]
    with pytest.raises(FedtierError, match=r"'4': is no label of this federation\n.*known: 1, 2, 3"):
        known("y", column_of("y", [1, 4]), ("1", "2", "3"))
