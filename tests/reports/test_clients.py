"""Clients by name: who is worst, by a rule that two rows cannot decide, and means that say how they are taken."""

import json
import shutil

import numpy as np
import pytest

from fedtier.experiments.metrics import spread
from fedtier.reports import charts, clients, load_runs, page, page_clients, style
from fedtier.reports.load_runs import Point


def curve_with(cells, names: tuple[str, ...], points: list[Point], natural: bool = True, method: str = "m"):
    curve = load_runs.load_runs([cells])[0]
    return curve._replace(method=method, names=names, points=points, counts=None, same_clients=natural)


def test_a_client_that_is_the_same_in_every_seed_is_one_line_and_its_name_is_its_owners(cells):
    points = [Point(0, 0, 0.5, 0.6, 20), Point(0, 1, 0.5, 0.8, 22), Point(1, 0, 0.5, 0.9, 30), Point(1, 1, 0.5, 1.0, 30)]
    found = clients.clients_of([curve_with(cells, ("bern", "chur"), points)])
    assert [(c.name, c.seed, c.tested) for c in found] == [("bern", None, 21), ("chur", None, 30)]
    assert found[0].personal["m"] == pytest.approx(70.0) and found[1].personal["m"] == pytest.approx(95.0)
    drawn = clients.clients_of([curve_with(cells, ("0", "1"), points, natural=False)])
    assert [(c.name, c.seed) for c in drawn] == [("client 0", 0), ("client 1", 0), ("client 0", 1), ("client 1", 1)]


def test_two_test_rows_do_not_decide_who_is_worst(cells):
    points = [Point(0, 0, 0.5, 0.0, 2), Point(1, 0, 0.5, 0.7, 10), Point(2, 0, 0.5, 0.8, 40)]
    curve = curve_with(cells, ("tiny", "worst", "large"), points)
    worst = clients.worst_of(clients.clients_of([curve]), "m")
    assert worst is not None and worst.name == "worst"
    text = page_clients.section([curve], "t")
    assert "Worst client: worst." in text and "70.0 % of its 10 test rows" in text and "(1 of 3 clients" in text
    assert text.index("worst</th>") < text.index("large</th>") < text.index("tiny</th>")
    alone = curve_with(cells, ("tiny",), points[:1])
    assert clients.worst_of(clients.clients_of([alone]), "m") is None
    assert "Worst client: not to be told." in page_clients.section([alone], "t") and "▼" not in page_clients.section(
        [alone], "t"
    )


def test_a_run_writes_how_many_rows_judge_each_client_and_the_mean_by_rows(outcome):
    for cell in outcome.comparison.cells:
        rows = outcome.finals[cell.method, cell.setting]
        told, counted = (json.loads((cell.folder / f"{name}.json").read_text()) for name in ("clients", "partition"))
        for row, seed in zip(rows, told, strict=True):
            held, personal = np.asarray(seed["held"]), np.asarray(seed["personal"])
            assert len(held) == 4 and (seed["seed"] != counted["seed"] or held.tolist() == counted["held"])
            assert row["personal_accuracy"]["by_rows"] == pytest.approx((held * personal).sum() / held.sum())
            assert row["personal_accuracy"]["mean"] == pytest.approx(personal.mean())


def test_the_mean_by_rows_is_that_of_all_test_rows_together():
    # 1 of 2 rows and 9 of 18 + 80 of 80: 90 of 100 rows are right, but the mean over clients is (0.5 + 0.5 + 1)/3
    found = spread(np.asarray([0.5, 0.5, 1.0, np.nan]), np.asarray([2, 18, 80, 0]))
    assert found["by_rows"] == pytest.approx(0.9) and found["mean"] == pytest.approx(2 / 3)
    assert spread(np.asarray([0.5]))["by_rows"] is None and spread(np.asarray([np.nan]), np.asarray([0]))["by_rows"] is None


def test_nobody_counts_rows_that_a_site_does_not_tell():
    found = spread(np.asarray([0.5, 0.7]), np.asarray([np.nan, np.nan]))
    assert found["by_rows"] is None and found["min"] == 0.5 and found["mean"] == pytest.approx(0.6)


def test_of_a_regression_the_largest_error_is_the_worst_and_stands_first(cells):
    points = [Point(0, 0, 2.0, 1.5, 20), Point(1, 0, 4.0, 3.25, 20), Point(2, 0, 9.0, 9.0, 2)]
    curve = curve_with(cells, ("small", "worst", "tiny"), points)._replace(errors=True)
    text = page_clients.section([curve], "t")
    assert "Worst client: worst." in text and "has an error (rmse) of 3.25 on its 20 test rows" in text
    assert text.index("worst</th>") < text.index("small</th>") < text.index("tiny</th>") and 'aria-sort="descending"' in text
    ((_, chart),) = charts.client_charts([curve], style.looks([curve]))
    assert chart["data"][1]["x"] == (2.0, 4.0, 9.0) and chart["layout"]["xaxis"]["title"]["text"] == "global model (rmse)"


def test_names_stand_wherever_clients_do(cells):
    points = [Point(k, s, 0.5, 0.6, 20) for s in (0, 1) for k in range(4)]
    names = ("aarau", "bern", "chur", "zürich")
    curve = load_runs.load_runs([cells])[0]
    counts = curve.counts._replace(names=names)
    text = page.page([curve._replace(points=points, names=names, counts=counts)])
    for name in names:
        assert f'class="method">{name}</th>' in text  # the table
        escaped = json.dumps(name)[1:-1]
        assert f'"{escaped}, seed 1"' in text and f'"{escaped}: ' in text  # the dots, the bubbles


def test_sites_of_the_wire_are_called_by_their_names(outcome, tmp_path):
    shutil.copytree(outcome.comparison.cells[0].folder, tmp_path / "run")
    (tmp_path / "run" / "partition.json").unlink()
    (tmp_path / "run" / "wire.json").write_text(json.dumps({"sites": ["north", "south", "east", "west"]}))
    (curve,) = load_runs.load_runs([tmp_path / "run"])
    assert curve.same_clients and [curve.client(k) for k in range(4)] == ["north", "south", "east", "west"]
