"""Published tables whose cells are runs: the rule on made-up numbers, the three files, and a tiny run of the command."""

import json

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.metric_row import Row
from fedtier.experiments.progress import Progress
from fedtier.studies import catalogue
from fedtier.studies.outside import cells, claims, sheets, table, wording
from fedtier.studies.outside.claims import judge, read_claims
from fedtier.studies.outside.reproduce import load_tables
from fedtier.studies.study import Order, comparison_for

FILES = ("niid-bench", "pfllib", "decomfl")


@pytest.fixture(scope="module")
def contents() -> dict:
    return {name: load_tables(name) for name in FILES}


@pytest.fixture(scope="module")
def wholes(contents, tmp_path_factory) -> dict:
    """All cells of each file: to check a configuration takes 20 ms, and there are 170."""
    store = tmp_path_factory.mktemp("cells")
    return {name: comparison_for(Order(name, store=store), asked(content)) for name, content in contents.items()}


def asked(content: dict) -> dict:
    return {key: value for key, value in content.items() if key not in cells.OURS}


def claimed(*given, trials=3) -> list[claims.Claim]:
    entries = [{"source": str(k), "trials": trials, "numbers": {"c": {"r": one}}} for k, one in enumerate(given)]
    return read_claims(entries)["r", "c"]


@pytest.mark.parametrize(
    ("ours", "published", "word"),
    [
        ([69.6, 69.8], [68.2], "agrees"),  # 1.5 apart, as much as is allowed
        ([69.8, 69.8], [68.2], "differs"),
        ([61.2, 61.2], [68.2, 63.4], "agrees"),  # 4.6 below the mean of two publications that are 4.8 apart
        ([60.9, 60.9], [68.2, 63.4], "differs"),
        ([60.0, 76.0], [72.0], "intervals overlap"),  # 68 with a half-width of 102
        ([10.0, 10.0], [[93.5, 94.4, 91.5]], "differs"),
        ([90.3, 90.3], [[93.5, 94.4, 91.5]], "agrees"),  # 2.83 below, within their spread of 2.9
        ([85.85, 85.85], [{"mean": 80.41, "deviation": 0.08}], "differs"),
        ([81.9, 81.9], [{"mean": 80.41, "deviation": 0.08}], "agrees"),
        ([80.0, 80.0], [{"mean": 78.0, "deviation": 0.7}], "intervals overlap"),  # t(2) .7 sqrt(3/2)/sqrt(3) = 2.13
        ([80.3, 80.3], [{"mean": 78.0, "deviation": 0.7}], "differs"),
    ],
)
def test_the_rule_says_what_agrees(ours, published, word):
    assert judge(np.asarray(ours), claimed(*published)).word == word


def test_nothing_published_is_no_verdict_and_a_deviation_needs_its_trials():
    assert judge(np.asarray([1.0]), []).word == ""
    with pytest.raises(FedtierError, match="trials"):
        claimed({"mean": 1.0, "deviation": 0.1}, trials=1)


def rows_of(*series: list[tuple[int, float, int]]) -> list[Row]:
    rows = [{"seed": s, "round": r, "global_accuracy": a, "bytes_up": b} for s, one in enumerate(series) for r, a, b in one]
    return rows  # pyright: ignore[reportReturnType]


def test_a_series_starts_after_round_0_and_ends_at_the_round_that_is_asked_for():
    rows = rows_of([(0, 0.9, 0), (5, 0.5, 10), (10, 0.7, 20), (15, 0.6, 30)], [(0, 0.1, 0), (5, 0.4, 10)])
    path = sheets.READINGS["global"]
    assert sheets.by_seed(rows, path) == [[0.5, 0.7, 0.6], [0.4]]
    assert sheets.by_seed(rows, path, 10) == [[0.5, 0.7]]  # the second seed never got there
    assert sheets.by_seed(rows, path, 7) == []


def test_words_name_what_differs_by_how_much_and_why():
    known = read_claims([{"source": "A", "numbers": {"c": {"r": 70.0, "q": 50.0}}}])
    values = np.asarray([60.0, 60.0])
    entry = sheets.Entry("r", "c", values, values + 1, "last", 0.0, judge(values, known["r", "c"]), np.asarray([52.0, 61.5]))
    said = wording.sentences([entry], known, {"r": "Because."})
    assert said == [
        "1 cells beside published ones: 0 agree, 0 more overlap, 1 differ; 1 published ones were not run.",
        "r differs: c by -10.0. Because.",
    ]
    last, best = wording.grids([entry], known)
    assert last.rows == [["r", "60.0±0.0! (70.0)"]] and best.rows == [["r", "61.0±0.0"]]
    line = wording.verdicts([entry], known, {"r": "Because."}).rows[0]
    assert line[-2:] == ["differs by -10.0", "Because."] and "52.0 to 61.5" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_published_number_has_a_row_and_a_column_and_every_exclusion_excludes(name, contents, wholes):
    content, whole = contents[name], wholes[name]
    sheets.check_names(content, *cells._names(content))
    for words in content["table"].get("without", ()):
        assert any(cells.chosen(words, one.method, one.setting) for one in whole.cells), words
    kept = cells._of_table(whole, content)
    folders = [one.folder for one in kept.cells]
    assert len(set(folders)) == len(folders)
    assert all(one.config.run.keep_personal == 0 for one in kept.cells)
    shown = {(line.name, one.setting) for one in kept.cells for line in sheets.lines_of([one.method], content)}
    names = {row for row, _ in shown}
    by_round = content["table"].get("columns") == "rounds"
    for row, column in read_claims(content["published"]):
        assert (row in names) if by_round else ((row, column) in shown), (row, column)


def test_the_files_have_the_published_numbers(contents):
    """Counted in the sources: Flower 3 sets x 5 splits x 4 methods, NIID-Bench 6 x 4, two of whose cells both have... 8."""
    niid = read_claims(contents["niid-bench"]["published"])
    assert len(niid) == 60 + 24 - 8 and sum(map(len, niid.values())) == 84
    assert sorted(claim.mean for claim in niid["FedAvg", "CIFAR-10 Dir(.5)"]) == [63.4, 68.2]
    assert [claim.mean for claim in niid["SCAFFOLD", "100 clients iid"]] == [10.0]
    pfl = read_claims(contents["pfllib"]["published"])
    assert len(pfl) == 17 and pfl["FedRep", "Dir(.1)"][0][1:3] == (97.56, 0.04)
    zo = read_claims(contents["decomfl"]["published"])
    assert zo["MNIST K=1, to the end", "10000"][0].mean == pytest.approx((96.71 + 97.0 + 97.02) / 3)


@pytest.mark.slow
def test_budgets_are_the_published_ones(wholes):
    for one in wholes["niid-bench"].cells:
        run, data, options = one.config.run, one.config.data, one.config.method.options
        many = one.setting.startswith("100")
        assert (run.rounds, run.participation, data.clients) == ((500, 0.1, 100) if many else (50, 1.0, 10))
        assert run.epochs == (5.0 if one.method.startswith("ZO-HFL") else 10.0) and options["batch"] == 64 and run.seeds == 3
        assert data.augment == (data.name == "cifar10") and data.pixels == "unit" and data.test == "published"
    for one in wholes["pfllib"].cells:
        assert one.config.method.options["batch"] == 10 and one.config.data.min_rows == 40
    for one in wholes["decomfl"].cells:
        if one.config.method.name == "decomfl":
            assert (
                one.config.run.local_steps == one.config.method.options["updates"] and one.config.method.options["batch"] == 256
            )


def test_a_name_that_no_row_has_is_refused(contents):
    content = contents["pfllib"] | {"explained": {"FedAvgg": "why"}}
    with pytest.raises(FedtierError, match="explained"):
        sheets.check_names(content, *cells._names(content))
    with pytest.raises(FedtierError, match="is no column"):
        sheets.check_names(content, cells._names(content)[0], ["Dir(.1)"])


TINY = """
[data]
name = "synthetic"
rows = 30
clients = 4
server_share = 0.0
partition = "iid"
[model]
name = "softmax"
[run]
rounds = 2
epochs = 1.0
seeds = 2
eval_every = 1
[compare]
baseline = "FedAvg"
equal_steps = false
[table]
read = "global"
judged = "best"
without = ["Local"]
note = "tiny"
[rows]
"FedAvg, on clients" = { of = "FedAvg", read = "clients" }
[[settings]]
label = "A"
[[methods]]
label = "FedAvg"
name = "fedavg"
batch = 8
[[methods]]
label = "Local"
name = "local_only"
batch = 8
[[published]]
source = "nobody"
[published.numbers]
"A" = { "FedAvg" = 50.0 }
"""


@pytest.mark.slow
@pytest.mark.checked
def test_the_command_writes_the_table_and_finds_its_cells_again(tmp_path, monkeypatch):
    import tomllib

    monkeypatch.setattr(cells, "load_tables", lambda name: tomllib.loads(TINY))
    order = Order("pfllib", store=tmp_path / "cells", out=tmp_path / "out")
    product = catalogue.make_result(order, Progress())
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")}
    assert len(stamps) == 1  # Local has no place in this table
    again = catalogue.make_result(order._replace(stored=True), Progress())
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")} == stamps
    assert product.content["cells"] == again.content["cells"]
    assert [one["row"] for one in product.content["cells"]] == ["FedAvg", "FedAvg, on clients"]
    stored = json.loads((tmp_path / "out" / "pfllib.json").read_bytes())["cells"]
    assert all(best >= last for one in stored for best, last in zip(one["best"]["seeds"], one["last"]["seeds"], strict=True))
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"pfllib.{e}" for e in ("md", "csv", "json", "svg", "pdf", "png")
    }
    (tmp_path / "none").mkdir()
    empty = catalogue.make_result(order._replace(stored=True, store=tmp_path / "none", out=None), Progress())
    assert empty.content["cells"] == [] and empty.content["said"][0] == "the store has none of these runs"
    assert "1 published ones were not run" in empty.content["said"][2]
    changed = catalogue.make_result(order._replace(settings=("run.seeds=1",), out=None), Progress())
    assert changed.content["said"][2] == table.UNJUDGED and "verdict" not in changed.content["cells"][0]


def test_stored_is_refused_where_a_study_would_run_all_the_same_and_where_there_is_no_store(tmp_path):
    with pytest.raises(FedtierError, match=r"--stored = 'table1': is for figure2, niid-bench, pfllib, decomfl alone"):
        catalogue.make_result(Order("table1", stored=True), Progress())
    with pytest.raises(FedtierError, match=r"--store = .*: is not a folder"):
        catalogue.make_result(Order("pfllib", stored=True, store=tmp_path / "none"), Progress())
