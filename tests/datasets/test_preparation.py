"""Preparing a table: fitted as scikit-learn's own transformers fit it, to training rows alone; JSON keeps it all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedtier.datasets import Preparation, load
from fedtier.datasets.fitting import fit, fit_label
from fedtier.datasets.preparation import Label
from fedtier.datasets.table import Table, column_of, words
from fedtier.errors import FedtierError

LABEL = Label("y", ("no", "yes"))


def table(rows=2000, seed=0):
    """Numbers with gaps, a category with rare levels and gaps, one without either."""
    rng = np.random.default_rng(seed)
    x, gaps = rng.lognormal(3, 2, size=(rows, 3)), rng.random((rows, 3)) < (0.0, 0.1, 0.3)
    x[gaps] = np.nan
    kinds = rng.choice(["a", "b", "c", "rare 1", "rare 2", None], rows, p=[0.5, 0.3, 0.145, 0.0025, 0.0025, 0.05])
    sizes = rng.choice(["s", "m", "l"], rows)
    columns = {f"x{k}": x[:, k] for k in range(3)} | {"kind": kinds, "size": sizes}
    return Table({name: column_of(name, values) for name, values in columns.items()}, rows), x, kinds, sizes


def test_a_prepared_table_is_what_scikit_learn_s_transformers_make_of_it():
    data, x, kinds, sizes = table()
    train, everyone = np.arange(0, 2000, 2), np.arange(2000)
    prepared, notes = fit(data, train, LABEL)
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    flags = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True)
    texts = OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False)
    known = np.where(kinds == None, "~missing", kinds).astype(object)  # noqa: E711  scikit-learn's own way to code it
    together = ColumnTransformer([("n", numbers, [0, 1, 2]), ("k", texts, [3, 4])])
    rows = np.column_stack([x.astype(object), known, sizes.astype(object)])
    together.fit(rows[train])
    flags.fit(x[train])
    expected = together.transform(rows).astype(float)
    names = [str(name) for name in together.get_feature_names_out()]
    found = dict(zip(prepared.columns, prepared.apply(data).T, strict=True))
    for ours, theirs in (
        ("x0", "n__x0"), ("x1", "n__x1"), ("x2", "n__x2"), ("kind = a", "k__x3_a"), ("kind = b", "k__x3_b"),
        ("kind = c", "k__x3_c"),
        ("kind = other", "k__x3_infrequent_sklearn"), ("kind missing", "k__x3_~missing"),
        ("size = l", "k__x4_l"), ("size = m", "k__x4_m"), ("size = s", "k__x4_s"),
    ):  # fmt: skip
        np.testing.assert_allclose(found.pop(ours), expected[:, names.index(theirs)], rtol=1e-5, atol=1e-6)
    gaps = flags.transform(x)[:, 3:]
    for k, name in enumerate(("x1 missing", "x2 missing")):
        np.testing.assert_array_equal(found.pop(name)[everyone], gaps[:, k])
    assert not found and notes == []


def test_no_row_but_the_training_rows_has_a_say():
    data, *_ = table()
    train = np.arange(1000)
    before, _ = fit(data, train, LABEL)
    wild = {}
    for name, column in data.columns.items():
        if isinstance(column, np.ndarray):
            wild[name] = np.where(np.arange(2000) < 1000, column, 1e9)
        else:
            wild[name] = column._replace(codes=np.where(np.arange(2000) < 1000, column.codes, 0).astype(np.int32))
    after, _ = fit(data._replace(columns=wild), train, LABEL)
    assert after == before


def test_json_gives_back_the_same_preparation_to_the_last_digit():
    data, *_ = table()
    prepared, _ = fit(data, np.arange(2000), Label("price", (), 1234.5678901234567, 1 / 3))
    again = Preparation.from_json(prepared.to_json())
    assert again == prepared
    np.testing.assert_array_equal(again.apply(data), prepared.apply(data))
    digits = load("digits")
    again = Preparation.from_json(digits.preparation.to_json())
    np.testing.assert_array_equal(again.apply(digits.inputs[:5]), digits.model_inputs(slice(0, 5)))
    for text in ("{}", "[]", "no", json.dumps({"format": "fedtier-preparation-1"}), prepared.to_json().replace("fill", "full")):
        with pytest.raises(FedtierError, match="preparation"):
            Preparation.from_json(text)


def test_new_rows_may_have_other_levels_other_gaps_and_another_order_of_columns():
    data, *_ = table()
    prepared, _ = fit(data, np.arange(2000), LABEL)
    new = {
        "size": ["xl", "s", None], "extra": [1, 2, 3], "kind": ["a", "rare 1", "never seen"],
        "x2": [np.nan, 1.0, 1.0], "x1": [1.0, 2.0, np.inf], "x0": [np.nan, 1.0, 1.0],
    }  # fmt: skip
    rows = prepared.apply(Table({name: column_of(name, values) for name, values in new.items()}, 3))
    found = dict(zip(prepared.columns, rows.T, strict=True))
    assert found["kind = a"].tolist() == [1, 0, 0] and found["kind = other"].tolist() == [0, 1, 1]
    assert [found[f"size = {k}"].tolist() for k in "lms"] == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]  # no column for unknown ones
    assert found["x1 missing"].tolist() == [0, 0, 1] and found["x2 missing"].tolist() == [1, 0, 0]
    fill = next(number for number in prepared.numbers if number.name == "x0")
    assert found["x0"][0] == pytest.approx((fill.fill - fill.shift) * fill.scale)
    with pytest.raises(FedtierError, match="there is no column x1, kind"):
        prepared.apply(Table({name: column_of(name, values) for name, values in new.items() if name not in ("x1", "kind")}, 3))
    with pytest.raises(FedtierError, match=r"column x0 = 'tall': must be a number"):
        prepared.apply(Table({name: column_of(name, v) for name, v in (new | {"x0": ["tall"] * 3}).items()}, 3))


def test_a_category_that_was_read_as_numbers_elsewhere_is_the_same_category():
    codes = Table({"ward": column_of("ward", np.array(["1", "2", "x"] * 40)), "x": column_of("x", np.arange(120.0))}, 120)
    prepared, _ = fit(codes, np.arange(120), LABEL)
    rows = prepared.apply(Table({"ward": column_of("ward", [2, 1, 1]), "x": column_of("x", [0.0, 1, 2])}, 3))
    assert rows[:, prepared.columns.index("ward = 1")].tolist() == [0, 1, 1]


def test_columns_that_do_not_vary_are_left_out_by_name():
    columns = {
        "same": np.ones(50), "gone": np.full(50, np.nan), "one word": ["a"] * 50, "x": np.arange(50.0),
        "sometimes": np.where(np.arange(50) % 2, 7.0, np.nan), "names": [f"n{k}" for k in range(50)],
    }  # fmt: skip
    data = Table({name: column_of(name, values) for name, values in columns.items()}, 50)
    prepared, notes = fit(data, np.arange(50), LABEL, most=3)
    assert prepared.columns[:3] == ("x", "sometimes", "sometimes missing")
    assert [note.partition(": ")[2] for note in notes] == ["gone", "same", "one word"]
    with pytest.raises(FedtierError, match=r"no column that varies[^$]*same, gone|no column that varies[^$]*gone"):
        fit(data.only(["same", "gone"]), np.arange(50), LABEL)


@pytest.mark.parametrize(("fill", "value"), [("median", 2.0), ("mean", 4.0), ("zero", 0.0)])
def test_a_gap_is_filled_as_chosen(fill, value):
    data = Table({"x": np.array([1.0, 2.0, 9.0, np.nan])}, 4)
    prepared, _ = fit(data, np.arange(4), LABEL, fill=fill)
    filled = np.array([1.0, 2.0, 9.0, value])
    np.testing.assert_allclose(prepared.apply(data)[:, 0], (filled - filled.mean()) / filled.std(), rtol=1e-6)
    np.testing.assert_array_equal(prepared.apply(data)[:, 1], [0, 0, 0, 1])


def test_a_category_gets_at_most_so_many_columns():
    rng = np.random.default_rng(0)
    levels = [f"zip {k}" for k in range(500)]
    data = Table({"zip": column_of("zip", rng.choice(levels, 20_000, p=np.arange(1, 501) / np.arange(1, 501).sum()))}, 20_000)
    prepared, _ = fit(data, np.arange(20_000), LABEL, most=20)
    assert len(prepared.columns) == 20 and "zip = zip 499" in prepared.columns and "zip = other" in prepared.columns
    assert prepared.apply(data).sum() == 20_000


def test_large_numbers_keep_their_digits():
    """Seconds since 1970, a second apart: float32 alone would see two different values in four minutes."""
    seconds = 1.7e9 + np.arange(200.0)
    data = Table({"t": seconds}, 200)
    prepared, _ = fit(data, np.arange(200), LABEL)
    np.testing.assert_allclose(prepared.apply(data)[:, 0], (np.arange(200) - 99.5) / np.arange(200).std(), atol=1e-5)


def test_the_label_of_a_regression_has_mean_0_and_deviation_1_in_the_training_rows():
    labels = np.array([1.0, 2.0, 6.0, 1000.0])
    found = fit_label("price", labels, (), np.arange(3))
    np.testing.assert_allclose(((labels - found.shift) * found.scale)[:3], (labels[:3] - 3) / labels[:3].std())
    assert found.task == "regression" and found.unit == pytest.approx(labels[:3].std())
    with pytest.raises(FedtierError, match="the same in all training rows"):
        fit_label("price", np.array([1.0, 1.0, 2.0]), (), np.arange(2))


def test_the_cell_that_is_no_number_is_named():
    preparation, _ = fit(Table({"x": np.arange(4.0)}, 4), np.arange(4), Label())
    with pytest.raises(FedtierError, match="column x = '4,2'"):
        preparation.apply(Table({"x": words(["4.1", "4,2", "5"])}, 3))
