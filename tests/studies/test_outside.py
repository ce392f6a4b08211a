"""Published tables beside ours: the rule on made-up numbers, and a tiny run of the command."""

import json

import numpy as np
import pytest

from fedtier.experiments import comparison
from fedtier.experiments.progress import Progress
from fedtier.studies import catalogue
from fedtier.studies.outside import reproduce, table
from fedtier.studies.outside.table import Cell, Published
from fedtier.studies.study import Order, comparison_for

from ..datasets import layouts

HEADINGS = {"va": "Long Beach"}
TINY = ("run.rounds=2", "run.seeds=2", "run.local_steps=3")


@pytest.fixture(scope="module")
def tables() -> dict:
    return reproduce.load_tables("fed-heart-disease")


def cell(values, mean, deviation) -> Cell:
    return Cell("FedAvg", "va", np.asarray(values), np.asarray(values), Published(mean, deviation))


def test_a_published_deviation_gives_the_interval_of_any_seeds_with_it():
    """t(4, 97.5 %) = 2.776; a deviation of .02 divided by 5 is one of .02 sqrt(5/4) divided by 4."""
    found = Published(0.7, 0.02).interval(5)
    assert found.mean == pytest.approx(0.7)
    assert found.half == pytest.approx(2.7764451 * 0.02 * np.sqrt(5 / 4) / np.sqrt(5))


@pytest.mark.parametrize(
    ("values", "published", "verdict"),
    [
        ([0.72, 0.72], (0.70, 0.02), "within one deviation"),
        ([0.7204, 0.7204], (0.70, 0.02), "within one deviation"),  # 0.720 in three decimals
        ([0.721, 0.721], (0.70, 0.02), "intervals overlap"),  # the published one reaches 0.7278
        ([0.729, 0.729], (0.70, 0.02), "differs"),
        ([0.71, 0.75], (0.70, 0.0), "intervals overlap"),  # ours is 0.73 ± 0.254
        ([0.764, 0.764], (0.764, 0.0), "within one deviation"),
        ([0.765, 0.765], (0.764, 0.0), "differs"),
        ([0.73], (0.70, 0.0), "differs"),  # one seed has no interval
    ],
)
def test_the_rule_says_what_agrees(values, published, verdict):
    assert cell(values, *published).verdict(5) == verdict


def test_what_differs_is_told_by_how_much_with_both_intervals_and_why():
    line = table.sentences([cell([0.73, 0.73], 0.70, 0.0)], HEADINGS, 5, {"FedAvg": "Because."})
    assert line[0] == "1 cells beside published ones: 0 agree, 0 more overlap, 1 differ."
    assert line[1] == "FedAvg differs: Long Beach by +0.030 ([0.730, 0.730] against [0.700, 0.700]). Because."


def test_another_set_up_than_theirs_is_not_judged():
    far = cell([0.9, 0.9], 0.70, 0.0)._replace(judged=False)
    assert far.verdict(5) == "" and table.sentences([far], HEADINGS, 5, {"FedAvg": "Because."}) == [table.UNJUDGED]
    assert table.beside(far, 5) == "0.900±0.000 (0.700±0.000)"


def test_every_published_row_has_a_cell_and_every_column_a_heading(tables):
    labels = {method["label"] for method in tables["methods"]} | set(tables["table"]["personal"])
    assert set(tables["published"]) <= labels and set(tables["explained"]) <= labels
    assert {column for row in tables["published"].values() for column in row} <= set(tables["table"]["columns"])
    assert sum(len(row) for row in tables["published"].values()) == 13 * 5 + 2  # Cyclic stands twice


def test_every_federated_row_has_the_published_budget(tables, tmp_path):
    """15 rounds of 100 gradients of 4 rows a client, and 50 epochs in one place."""
    layouts.write_heart(tmp_path)
    wanted = comparison_for(Order("fed-heart-disease", store=tmp_path), {k: v for k, v in tables.items() if k not in OURS})
    train = {"cleveland": 199, "hungarian": 172, "switzerland": 30, "va": 85, "all": 486}
    for one in wanted.cells:
        run, options = one.config.run, one.config.method.options
        assert run.seed == 42 and run.seeds == 5 and one.config.model.name == "logistic"
        if one.method == "Cyclic, its code":
            assert run.rounds * options["server_steps"] == 400
        elif one.config.method.name == "server_only":
            epoch = -(-train[one.config.data.server_copy] // 4)
            assert (run.rounds, options["server_steps"], options["server_batch"]) == (50, epoch, 4)
        else:
            solves = 2 if one.config.method.name == "zo_hfl" else 1
            assert (run.rounds, solves * run.local_steps, options["batch"]) == (15, 100, 4)


OURS = ("table", "published", "explained")


@pytest.mark.slow
@pytest.mark.checked
def test_the_command_writes_the_table_and_finds_its_cells_again(tmp_path, monkeypatch):
    layouts.write_heart(tmp_path / "heart-disease")
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path))
    order = Order("fed-heart-disease", only=(".003162",), store=tmp_path / "cells", settings=TINY, out=tmp_path / "out")
    product = catalogue.make_result(order, Progress())
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")}
    again = catalogue.make_result(order, Progress())
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")} == stamps
    assert product.content["cells"] == again.content["cells"]
    rows = {one["row"] for one in product.content["cells"]}
    assert rows == {"FedAvg .003162", "FedAvg .003162, fine-tuned"}
    cells = {one["column"]: one["last"]["mean"] for one in product.content["cells"] if one["row"] == "FedAvg .003162"}
    four = [cells[name] for name in ("cleveland", "hungarian", "switzerland", "va")]
    assert cells["mean"] == pytest.approx(np.mean(four), abs=1e-4)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {f"fed-heart-disease.{ending}" for ending in ("md", "csv", "json", "svg", "pdf", "png")}
    stored = json.loads((tmp_path / "out" / "fed-heart-disease.json").read_bytes())["cells"]
    for one in stored:
        assert all(best >= last for best, last in zip(one["best"]["seeds"], one["last"]["seeds"], strict=True))
    how, _, verdict = product.content["said"]
    assert how.startswith("a variant") and verdict == table.UNJUDGED
    assert (tmp_path / "out" / "fed-heart-disease.md").read_text().startswith("# fed-heart-disease\n\na variant")


def test_the_study_is_a_comparison(tables, tmp_path):
    asked = {key: value for key, value in tables.items() if key not in (*OURS, "quick")}
    assert len(comparison.make_comparison(asked, tmp_path).cells) == len(tables["methods"])
