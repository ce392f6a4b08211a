"""Tables in memory and in Arrow's formats: the same table, whoever holds it."""

from __future__ import annotations

import datetime
import decimal
import sys

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from fedtier.datasets import load
from fedtier.errors import FedtierError

COLUMNS = {
    "age": [40, None, 60, 50],
    "ok": [True, False, None, True],
    "site": ["Bern", "Ulm", "Bern", "Ulm"],
    "dose": [0.5, 0.25, 1.0, None],
    "kind": ["a", None, "b", "a"],
    "label": ["b", "a", "b", "a"],
}
SEEN = ("age", "ok", "dose", "age missing", "ok missing", "dose missing", "kind = a", "kind = b", "kind missing")


def arrow(columns=COLUMNS):
    return pyarrow.table(columns)


def check(data):
    assert data.labels.tolist() == [1, 0, 1, 0] and data.owner_names == ("Bern", "Ulm") and data.owner.tolist() == [0, 1, 0, 1]
    prepared = data.prepared([np.arange(4)])
    assert prepared.columns == SEEN
    age = np.array([40, 50, 60, 50])
    np.testing.assert_allclose(prepared.inputs[:, 0], (age - age.mean()) / age.std(), rtol=1e-6)
    np.testing.assert_array_equal(prepared.inputs[:, 3:6], [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def written(table, path):
    writers = {".parquet": pyarrow.parquet.write_table, ".feather": pyarrow.feather.write_feather}
    if path.suffix in writers:
        writers[path.suffix](table, path)
        return path
    opener = pyarrow.ipc.new_file if path.suffix == ".arrow" else pyarrow.ipc.new_stream
    with opener(str(path), table.schema) as sink:
        sink.write_table(table)
    return path


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow", ".ipc"])
def test_arrow_s_files_read_like_the_table_they_hold(tmp_path, ending):
    path = written(arrow(), tmp_path / f"t{ending}")
    check(load("file", file=path, owner="site"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FedtierError, match="not an intact"):
        load("file", file=path, owner="site")


def test_an_arrow_table_and_a_dict_of_lists_are_data_too():
    check(load("file", file=arrow(), owner="site"))
    check(load("file", file=COLUMNS, owner="site"))


class Series:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return np.asarray(self.values, dtype=object)


class LikePandas:
    """As much of a pandas DataFrame as is asked of one."""

    def __init__(self, columns):
        self.columns, self.shape = list(columns), (4, len(columns))
        parts = [*columns.values()]
        self.iloc = type("Places", (), {"__getitem__": lambda _, place: Series(parts[place[1]])})()


class LikePolars:
    def __init__(self, columns):
        self.columns, self.shape = list(columns), (4, len(columns))
        self.parts = [*columns.values()]

    def to_series(self, place):
        return Series(self.parts[place])


@pytest.mark.parametrize("kind", [LikePandas, LikePolars])
def test_a_data_frame_is_asked_for_its_columns_alone(kind):
    check(load("file", file=kind(COLUMNS), owner="site"))


@pytest.mark.extras
@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_real_data_frames_with_their_own_types_read_alike(name):
    library = __import__(name)
    check(load("file", file=library.DataFrame(COLUMNS), owner="site"))
    if name == "pandas":
        frame = library.DataFrame(COLUMNS).convert_dtypes()
        frame["kind"] = frame["kind"].astype("category")
        check(load("file", file=frame.set_index(np.arange(4) + 7), owner="site"))
    else:
        check(
            load(
                "file",
                file=library.DataFrame(COLUMNS).with_columns(library.col("kind").cast(library.Categorical)),
                owner="site",
            )
        )


def test_categories_decimals_and_dates_of_arrow_are_taken_for_what_they_are(tmp_path):
    columns = dict(COLUMNS) | {"kind": pyarrow.array(COLUMNS["kind"]).dictionary_encode()}
    columns["dose"] = pyarrow.array([None if v is None else decimal.Decimal(str(v)) for v in COLUMNS["dose"]])
    check(load("file", file=arrow(columns), owner="site"))
    columns["when"] = [datetime.date(2020, 1, k + 1) for k in range(4)]
    with pytest.raises(FedtierError, match="column when = '2020-01-01': holds dates"):
        load("file", file=arrow(columns), owner="site")
    columns["when"] = [[1, 2], [3], [], [4]]
    with pytest.raises(FedtierError, match=r"column when.*holds lists"):
        load("file", file=arrow(columns), owner="site")


def test_labels_that_are_missing_are_refused_by_row():
    with pytest.raises(FedtierError, match="label label: is missing in row 1"):
        load("file", file=arrow(COLUMNS | {"label": ["a", None, "b", "a"]}), owner="site")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FedtierError, match=r"pyarrow[^$]*fedtier\[parquet\]"):
        load("file", file=tmp_path / "t.parquet")
