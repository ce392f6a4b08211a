"""Text files of cells as people have them: any separator, quotes, packing, encoding; columns typed by what they hold."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pytest

from fedtier.datasets.delimited import read_delimited
from fedtier.datasets.table import Words, are_dates
from fedtier.errors import FedtierError

NAN = None


def written(tmp_path, text, name="table.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def plain(column):
    """Numbers, or texts; None where missing."""
    if isinstance(column, Words):
        return [None if code < 0 else column.levels[code] for code in column.codes]
    return [None if np.isnan(value) else float(value) for value in column]


def columns(path, **options):
    return {name: plain(column) for name, column in read_delimited(path, **options).columns.items()}


PLAIN = {"a": [1.0, 2.0, None], "b": ["x", "y, z", None], "label": [0.0, 1.0, 1.0]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_separator_and_any_line_end_give_the_same_table(tmp_path, separator, end):
    lines = [["a", "b", "label"], ["1", "x", "0"], ["2", '"y, z"', "1"], ["", "?", "1"], []]
    path = written(tmp_path, end.join(separator.join(line) for line in lines) + end)
    assert columns(path) == PLAIN
    told = read_delimited(path).notes[0]
    assert ("tabs" if separator == "\t" else repr(separator)) in told


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (lzma.compress, ".xz"), (bz2.compress, ".bz2")])
def test_packed_files_are_unpacked_on_the_way(tmp_path, pack, ending):
    text = b'a,b,label\n1,x,0\n2,"y, z",1\n,?,1\n'
    assert columns(written(tmp_path, pack(text), "table.csv" + ending)) == PLAIN
    with pytest.raises(FedtierError, match="cut short or damaged"):
        read_delimited(written(tmp_path, pack(text * 900)[:-30], "cut.csv" + ending))


def test_a_zip_with_one_table_is_that_table_and_one_with_two_is_refused_by_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.csv", 'a,b,label\n1,x,0\n2,"y, z",1\n,?,1\n')
        archive.writestr("__MACOSX/._t.csv", "not this")
        archive.writestr("readme.md", "nor this")
    assert columns(tmp_path / "t.zip") == PLAIN
    with zipfile.ZipFile(tmp_path / "t.zip", "a") as archive:
        archive.writestr("other.csv", "a,b\n1,2\n")
    with pytest.raises(FedtierError, match=r"must hold one table, but holds folder/t.csv, other.csv"):
        read_delimited(tmp_path / "t.zip")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_names_with_umlauts_survive_every_common_encoding(tmp_path, encoding):
    path = written(tmp_path, "größe,ort\n1,Zürich\n2,Bern\n", encoding=encoding)
    assert columns(path) == {"größe": [1.0, 2.0], "ort": ["Zürich", "Bern"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x;y\n1,5;a\n-2,25;b\n,5;a\n", {"x": [1.5, -2.25, 0.5], "y": ["a", "b", "a"]}),  # decimal commas
        ('x,y\n"1,234",1\n"12,345,678",2\n', {"x": [1234.0, 12345678.0], "y": [1.0, 2.0]}),  # commas between thousands
        ('x,y\n"1,234",1\n999,2\n"12,345.5",3\n', {"x": [1234.0, 999.0, 12345.5], "y": [1.0, 2.0, 3.0]}),  # and without
        ("x;y\n36,612;a\n37;b\n37,1;a\n", {"x": [36.612, 37.0, 37.1], "y": ["a", "b", "a"]}),  # decimals, not thousands
        ("x;y\n1.234,50;a\n12,5;b\n7;a\n", {"x": [1234.5, 12.5, 7.0], "y": ["a", "b", "a"]}),  # points between thousands
        ('x,y\n"$1,200.50",3 %\n"$ 30",4.5%\n$-7,\n', {"x": [1200.5, 30.0, -7.0], "y": [3.0, 4.5, NAN]}),  # units
        ("x;y\n1,5 €;1$\n2 €;2\n", {"x": [1.5, 2.0], "y": ["1$", "2"]}),  # not at every number: words
        ("x,y\n1,True\n2,false\n3,TRUE\n", {"x": [1.0, 2.0, 3.0], "y": [1.0, 0.0, 1.0]}),
        ("x,y\n1,yes\n2,no\n3,yes\n", {"x": [1.0, 2.0, 3.0], "y": ["yes", "no", "yes"]}),
        ("x,y\n007,1\n7,2\n07,3\n", {"x": ["007", "7", "07"], "y": [1.0, 2.0, 3.0]}),  # codes, not numbers
        ("x,y\n1_0,1\n2_0,2\n", {"x": ["1_0", "2_0"], "y": [1.0, 2.0]}),
        ("x,y\n1,NA\n2,n/a\nnull,4\nNaN,\n", {"x": [1.0, 2.0, NAN, NAN], "y": [NAN, NAN, 4.0, NAN]}),
        ("x,y\n 1 , a b \n 2, c\n", {"x": [1.0, 2.0], "y": ["a b", "c"]}),
        ("x,y\n1e-3,+2\n2E5,-3.\n", {"x": [0.001, 200000.0], "y": [2.0, -3.0]}),
        ("'x','y'\n'a, b',2\n'c',3\n", {"x": ["a, b", "c"], "y": [2.0, 3.0]}),
        ('x,y\n"two\nlines",1\n"say ""hi""",2\n', {"x": ["two\nlines", 'say "hi"'], "y": [1.0, 2.0]}),
        ('x,y\n5" pipe,1\n6" pipe,2\n', {"x": ['5" pipe', '6" pipe'], "y": [1.0, 2.0]}),  # quotes inside cells
        ("x  y   z\n 1  2   3\n 4  5  6\n", {"x": [1.0, 4.0], "y": [2.0, 5.0], "z": [3.0, 6.0]}),  # spaces
        ("sep=;\nx;y\n1;2\n3;4\n", {"x": [1.0, 3.0], "y": [2.0, 4.0]}),  # as a spreadsheet writes it
        ("# made by hand\n# today\nx,y\n1,2\n3,4\n", {"x": [1.0, 3.0], "y": [2.0, 4.0]}),
        ("My table\n\nx,y,z\n1,2,a\n3,4,b\n", {"x": [1.0, 3.0], "y": [2.0, 4.0], "z": ["a", "b"]}),
        ("x,y\n\n1,2\n,\n3,4\n\n", {"x": [1.0, 3.0], "y": [2.0, 4.0]}),  # blank lines, lines of empty cells
        ("x,y\n1,2,\n3,4,\n", {"x": [1.0, 3.0], "y": [2.0, 4.0]}),  # rows that end in a separator
        ("x,y,\n1,2,\n3,4,\n", {"x": [1.0, 3.0], "y": [2.0, 4.0], "column 3": [NAN, NAN]}),
        (",x,y\n0,5,2\n1,5,4\n2,7,4\n", {"x": [5.0, 5.0, 7.0], "y": [2.0, 4.0, 4.0]}),  # the index that pandas writes
        ("x y\nfirst 1 2\nsecond 3 4\n", {"x": [1.0, 3.0], "y": [2.0, 4.0]}),  # the names of rows that R writes
        (",x\n3,1\n3,2\n", {"column 1": [3.0, 3.0], "x": [1.0, 2.0]}),  # no name, but no index either
        ("x,x,y\n1,2,3\n4,5,6\n", {"x": [1.0, 4.0], "x (2)": [2.0, 5.0], "y": [3.0, 6.0]}),
        ("x,y\n1,inf\n2,-Infinity\n", {"x": [1.0, 2.0], "y": [float("inf"), float("-inf")]}),
    ],
)  # fmt: skip
def test_odd_but_honest_files_are_read_as_meant(tmp_path, text, expected):
    assert columns(written(tmp_path, text)) == expected


def test_a_file_without_names_is_refused_until_told_so(tmp_path):
    path = written(tmp_path, "1,2,a\n3,4,b\n5,6,a\n")
    assert columns(path, header=False) == {
        "column 1": [1.0, 3.0, 5.0],
        "column 2": [2.0, 4.0, 6.0],
        "column 3": ["a", "b", "a"],
    }
    with pytest.raises(FedtierError, match=r"starts with the numbers 1, 2, .*\n.*header = false"):
        read_delimited(written(tmp_path, "1,2,3\n4,5,6\n"))


def test_what_cannot_be_a_table_is_refused_with_the_place(tmp_path):
    for text, message in (
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, the header 2"),
        ("a,b\n" + "1,2\n" * 30_000 + "1,2,3\n", "line 30002 has 3 cells, the header 2"),
        ("a,b\n", "holds no rows, only a header"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ('a,b\n1,"x\n2,y\n', "cannot be split into cells"),  # a quote that is never closed would swallow the rest
        (b"a,b\n\x00\x01", "is no text"),
    ):
        with pytest.raises(FedtierError, match=message):
            read_delimited(written(tmp_path, text))


@pytest.mark.slow
def test_a_word_after_many_numbers_makes_the_column_words_and_loses_no_spelling(tmp_path):
    cells = [f"{k % 7}.50" for k in range(45_000)] + ["seven"]
    found = columns(written(tmp_path, "a,b\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells))))
    assert found["a"] == cells and found["b"] == list(range(45_001))


def test_a_few_slips_in_a_column_of_numbers_are_missing_and_told(tmp_path):
    cells = [str(k) for k in range(100)]
    cells[17] = cells[60] = "twelve"
    table = read_delimited(written(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells)))
    assert np.flatnonzero(np.isnan(table.columns["a"])).tolist() == [17, 60]
    assert any("column a: 2 cells that are no numbers ('twelve') count as missing" in note for note in table.notes)


def test_columns_that_are_asked_for_as_words_keep_their_spelling_up_to_a_needless_point(tmp_path):
    path = written(tmp_path, "code,x\n10,1\n2.0,2\n2,3\nTrue,4\n")
    assert columns(path, texts=["code"])["code"] == ["10", "2", "2", "True"]


def test_a_label_with_decimal_commas_is_a_number(tmp_path):
    path = written(tmp_path, "x;price\n1;36,612\n2;37\n3;37,1\n")
    assert read_delimited(path, texts={"price"}).columns["price"].levels == ("36.612", "37", "37.1")


def test_columns_that_are_not_wanted_are_not_read(tmp_path):
    assert columns(written(tmp_path, "a,b,c\n1,2,3\n4,5,6\n"), skip=["b"]) == {"a": [1.0, 4.0], "c": [3.0, 6.0]}


@pytest.mark.parametrize(
    ("cells", "dates"),
    [
        (["2020-01-31", "2021-12-01"], True), (["2020-01-31T10:11:12", "2020-01-31 10:11"], True),
        (["31.01.2020", "1.2.20"], True), (["12/31/2020", "1/2/2021"], True), (["10:30", "23:59:59"], True),
        (["3-Jan-2020", "14 March 2021"], True), (["Jan 3, 2020"], True), (["2020", "2021"], False),
        (["2020-01-31", "unknown", "2021-12-01"], True),
        (["a-b-c", "2020-01-31"], False), (["1.2.3"], False), (["10-20", "20-30"], False),
    ],
)  # fmt: skip
def test_dates_and_times_are_recognised_and_nothing_else(tmp_path, cells, dates):
    table = read_delimited(written(tmp_path, "d|x\n" + "".join(f"{cell}|1\n" for cell in cells)))
    assert are_dates(table.columns["d"]) == dates


@pytest.mark.slow
def test_a_long_table_loses_nothing(tmp_path):
    rng = np.random.default_rng(0)
    values, kinds = rng.normal(size=(50_001, 3)), rng.choice(["red", "green", "blue"], 50_001)
    lines = "".join(f"{a!r},{b!r},{c!r},{kind}\n" for (a, b, c), kind in zip(values.tolist(), kinds, strict=True))
    table = read_delimited(written(tmp_path, "a,b,c,kind\n" + lines))
    for k, name in enumerate("abc"):
        np.testing.assert_array_equal(table.columns[name], values[:, k])
    assert plain(table.columns["kind"]) == kinds.tolist()


EITHER_WAY = "x{s}z{s}label\n11,321{s}{z}{s}0\n37{s}{z}{s}1\n12,500{s}{z}{s}1\n"


def on_commas(tmp_path, z, separator="\t", **options):
    """The column 11,321; 37; 12,500 beside a column of `z`, and what was decided."""
    table = read_delimited(written(tmp_path, EITHER_WAY.format(s=separator, z=z), "t.tsv"), **options)
    return plain(table.columns["x"]), table.decimal


@pytest.mark.parametrize("separator", ["\t", "|"])
def test_a_comma_before_three_digits_is_never_guessed(tmp_path, separator):
    """Seen: 37 and 11,321 in a file with tabs became 37 and 11321."""
    decimals, thousands = ([11.321, 37.0, 12.5], ","), ([11321.0, 37.0, 12500.0], ".")
    assert on_commas(tmp_path, "7", separator) == (["11,321", "37", "12,500"], "")  # words, which are refused as a feature
    assert on_commas(tmp_path, "7", separator, decimal=",") == decimals
    assert on_commas(tmp_path, "7", separator, decimal=".") == thousands
    assert on_commas(tmp_path, "0,5", separator) == decimals  # the other column says what its commas are
    assert on_commas(tmp_path, "0.5", separator) == on_commas(tmp_path, "1,234,567", separator) == thousands
    assert on_commas(tmp_path, "7", ";") == decimals  # semicolons stand between cells where commas stand in numbers


def test_what_was_decided_about_commas_is_told_and_quoted_cells_are_no_exception(tmp_path):
    path = written(tmp_path, 'x,z\n"11,321",0.5\n37,1.5\n')
    assert "column x: commas are taken to stand between thousands" in read_delimited(path).notes
    assert columns(written(tmp_path, 'x,z\n"11,321",1\n37,2\n'))["x"] == ["11,321", "37"]
    both = written(tmp_path, "x\ta\tb\n11,321\t0,5\t0.5\n37\t1,5\t1.5\n", "t.tsv")
    assert columns(both)["x"] == ["11,321", "37"]  # the others do not agree
    few = [str(k) for k in range(100)] + ["1,234"]  # no slip of the pen
    assert columns(written(tmp_path, "x\ta\n" + "".join(f"{cell}\t1\n" for cell in few), "t.tsv"))["x"] == few


def test_a_postcode_with_its_zero_in_the_last_row_makes_the_column_codes(tmp_path):
    cells = [str(10_000 + k) for k in range(400)] + ["02134"]
    found = columns(written(tmp_path, "zip,b\n" + "".join(f"{cell},1\n" for cell in cells)))
    assert found["zip"] == cells
