"""Tables in a terminal of 80 columns, and what stands below them."""

import re

import numpy as np
import pytest

from fedtier.cli.shared import plain
from fedtier.experiments import outcomes, search
from fedtier.experiments.config import load_config
from fedtier.experiments.label_counts import count_labels
from fedtier.experiments.session import Result
from fedtier.reports import clients, terminal
from fedtier.reports.findings import Late

from ..small_runs import METHODS, SHORT, options


def widest(text: str) -> int:
    """The longest line that holds no path, which nobody may break."""
    return max(len(line.rstrip()) for line in text.splitlines() if "/" not in line or line.startswith(("│", "┃")))


@pytest.fixture
def result(outcome) -> Result:
    cell = next(cell for cell in outcome.comparison.cells if cell.method == "fedavg")
    return Result(cell.folder, cell.config, outcome.finals["fedavg", ""], None, None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_run_is_readable_at_80_columns_and_names_its_worst_client(result, monkeypatch, seeds):
    monkeypatch.setattr(clients, "FEWEST", 1)  # the test's clients are small
    out = plain(terminal.run_table(result._replace(final=result.final[:seeds])))
    assert widest(out) <= 80 and "worst client: client " in out and "sent: " in out
    assert re.search(r"time: \d+\.\d s of rounds, \d+ s to\s+compile", out)
    *_, where, after = out.splitlines()
    assert where == f"results: {result.folder}" and after == f"next: fedtier report {result.folder} --out report.html"
    assert ("│ mean │" in out) == (seeds > 1)


def test_a_run_that_was_better_before_its_end_says_so_with_a_command_that_no_line_breaks(result, monkeypatch):
    late = Late(40, "71.0 %, 2.0 points above the last", f"fedtier search {result.folder}/config.toml --over run.rounds=20,40")
    assert "fewer rounds" not in plain(terminal.run_table(result))
    monkeypatch.setattr(terminal, "past_best", lambda curve: late)
    out = plain(terminal.run_table(result))
    assert widest(out) <= 80 and "was best at round 40" in out.replace("\n", " ")
    assert f"to choose them without the test rows: {late.search}" in out.splitlines()


def test_a_search_says_that_points_are_level_and_how_few_rows_judge():
    """Seen: a winner among equals, judged on 8 rows that were called test rows."""
    scores = {1.0: 0.75, 10.0: 0.75, 30.0: 0.5}
    points = [search.Point({"penalty": key}, np.asarray([score]), np.asarray([0.5])) for key, score in scores.items()]
    config = load_config(settings=["data.validation_share=0.1"])
    said = plain(terminal.search_table(search.Search(config, points, 1.0, "accuracy", {"global": 8, "personal": 49})))
    assert "the first 2 points are level" in said and "only 8 validation rows judge" in said
    said = plain(terminal.search_table(search.Search(config, points[1:], 1.0, "accuracy", {"global": 50, "personal": 49})))
    assert "level" not in said and "only" not in said
    assert "at an end" not in said  # two values: each is an end
    by_personal = search.Search(config, points, 1.0, "accuracy", {"global": 50, "personal": 49}, "personal")
    said = plain(terminal.search_table(by_personal)).replace("\n", " ")
    assert "by the personal models" in " ".join(said.split()) and "only 49 validation rows judge the personal models" in said
    same = search.Search(config, points[:2], 1.0, "accuracy", {"global": 50, "personal": 49})
    for text in (plain(terminal.search_table(same)), terminal.search_toml(same)):
        assert "all points are level: penalty made no difference to zo_hfl here" in text.replace("\n", " ")
    assert "validation rows" in count_labels(config).said[0] and "test rows" in count_labels(load_config()).said[0]


def test_a_search_names_the_keys_whose_best_value_is_the_last_that_was_tried():
    config = load_config(settings=["data.validation_share=0.1"])

    def ends(*options):
        points = [search.Point(one, np.asarray([0.9 - k / 10]), np.asarray([0.5])) for k, one in enumerate(options)]
        found = search.Search(config, points, 1.0, "accuracy", {"global": 50, "personal": 49})
        return terminal.search_object(found)["at_an_end"], plain(terminal.search_table(found)), terminal.search_toml(found)

    keys, said, toml = ends(*({"run.rounds": r, "penalty": p} for r in (20, 10, 30) for p in (1.0, 3.0, 10.0)))
    assert keys == ["penalty"] and "penalty = 1.0 at an end of what was tried" in said and "# penalty = 1.0 at an end" in toml
    keys, *_ = ends(*({"run.rounds": r, "model.bias": b} for r in (30, 20, 10) for b in (True, False)))
    assert keys == ["run.rounds"]
    keys, said, _ = ends(*({"client_lr": v, "method.guide": g} for v in (0.1, "inverse(0.1)", 0.2) for g in ("a", "b", "c")))
    assert keys == [] and "at an end" not in said
    assert ends(*({"run.tau": [1, k]} for k in range(3)))[0] == []  # lists have no ends


def test_the_interval_below_a_run_is_that_of_its_seeds(result):
    ratio = outcomes.resampling_ratio(result.config, "global")
    numbers = [100 * row["global_accuracy"] for row in result.final]
    half = 12.706205 * abs(numbers[1] - numbers[0]) / 2**0.5 * (1 / 2 + ratio) ** 0.5  # t with 1 degree of freedom
    table = terminal.run_table(result)[0]
    columns = {column.header.replace("\n", " "): list(column.cells) for column in table.columns}
    assert columns["seed"] == ["0", "1", "mean", "±"] and columns["global %"][-1] == f"{half:.2f}"


def test_a_comparison_is_readable_at_80_columns_and_ends_with_what_it_found(fedtier, cells):
    asked = ["--seeds", "2", "--store", cells, "--baseline", "server_only"]  # shared cells keep their baseline
    code, out, _ = fedtier("compare", "--methods", *METHODS, *options(SHORT), *asked)
    assert code == 0 and widest(out) <= 80
    words = " ".join(out.split())
    assert "ertainly best" in words and "★ best mean" in words and "Nadeau and Bengio 2003" in words
    assert "a client counts once, however few rows it has" in words
    assert out.splitlines()[-1] == f"next: fedtier report {cells} --out report.html"
