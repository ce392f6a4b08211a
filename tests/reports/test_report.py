"""Reports: one page that needs nothing else, from what is in the folders."""

import json
import re
import shutil
from importlib import resources

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import comparison, outcomes
from fedtier.experiments.label_counts import LabelCounts
from fedtier.experiments.progress import Progress
from fedtier.experiments.session import stops
from fedtier.methods import registry
from fedtier.reports import charts as charts_of
from fedtier.reports import load_runs, page, plots, style
from fedtier.reports.findings import Late
from fedtier.storage.checksums import stamped

from ..small_runs import METHODS


def charts(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)[1])["charts"]


@pytest.mark.slow
def test_the_page_holds_every_curve_client_and_config_and_loads_nothing(fedtier, cells, tmp_path):
    code, out, _ = fedtier("report", cells, "--out", "r.html", "--figures", "figures", "--baseline", "server_only")
    assert code == 0 and out.splitlines()[0] == "r.html"
    text = (tmp_path / "r.html").read_text()
    drawn = charts(text)
    curves = {f"s0-{m}-{a}" for m in ("loss", "global", "personal") for a in ("round", "bytes", "local_steps")}
    assert curves < set(drawn) and "s0-partition" in drawn
    assert all(f'id="{name}"' in text for name in set(drawn) - curves)
    assert all(f'id="s0-{measure}"' in text for measure in ("loss", "global", "personal"))
    own = text.replace(max(re.findall(r"<script>.*?</script>", text, re.S), key=len), "")  # all but Plotly's own script
    assert not re.search(r'(src|href)="(?!data:)', own) and "@import" not in own and "http" not in own
    assert "ZO-HFL" in own and "Difference to server only" in own and "[method]" in own and "@media print" in own
    for name in ("curves", "clients", "partition"):
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 2000
        assert (tmp_path / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_a_curve_is_the_mean_over_seeds_within_the_lowest_and_the_highest(cells):
    curve = next(c for c in load_runs.load_runs([cells]) if c.name == "fedavg")
    line = load_runs.band(curve, "round", ("global_loss",))
    by_hand = [[r["global_loss"] for r in curve.rows if r["round"] == number] for number in (0, 2, 4, 6)]
    np.testing.assert_array_equal(line.x, [0, 2, 4, 6])
    np.testing.assert_allclose(line.mean, np.mean(by_hand, axis=1))
    np.testing.assert_allclose([line.low, line.high], [np.min(by_hand, axis=1), np.max(by_hand, axis=1)])
    assert (
        load_runs.band(next(c for c in load_runs.load_runs([cells]) if c.name == "local_only"), "round", ("global_loss",))
        is None
    )


def test_one_point_a_client_with_its_number(cells):
    for curve in load_runs.load_runs([cells]):
        assert [(p.seed, p.client) for p in curve.points] == [(s, c) for s in (0, 1) for c in range(4)]
        assert all(p.personal is not None and (p.shared is None) == (curve.name == "local_only") for p in curve.points)


def restamped(text: str) -> str:
    rows = [json.loads(line) for line in text.splitlines()]
    return "".join(stamped({key: row[key] for key in row if key != "checksum"}) + "\n" for row in rows)


def test_runs_are_named_by_what_differs_and_seeds_of_one_configuration_are_pooled(outcome, tmp_path):
    source = outcome.comparison.cells[METHODS.index("fedavg")].folder

    def variant(name: str, *changes: tuple[str, str]) -> None:
        shutil.copytree(source, tmp_path / name)
        for file, pattern in (("config.toml", "{}"), ("metrics.jsonl", "{}")):
            text = (tmp_path / name / file).read_text()
            for before, after in changes:
                text = text.replace(pattern.format(before), pattern.format(after))
            (tmp_path / name / file).write_text(restamped(text) if file == "metrics.jsonl" else text)

    variant("a")
    variant("more_seeds", ("seed = 0", "seed = 2"), ('"seed": 1', '"seed": 3'), ('"seed": 0', '"seed": 2'))
    variant("bigger_batch", ("batch = 32", "batch = 64"))
    variant("other_data", ("client_test_share = 0.3", "client_test_share = 0.2"))
    found = {(c.setting, c.method): c for c in load_runs.load_runs([tmp_path])}
    assert set(found) == {
        ("client_test_share = 0.3", "FedAvg (batch = 32)"),
        ("client_test_share = 0.3", "FedAvg (batch = 64)"),
        ("client_test_share = 0.2", "FedAvg (batch = 32)"),
    }
    pooled = found["client_test_share = 0.3", "FedAvg (batch = 32)"]
    assert [row["seed"] for row in pooled.final()] == [0, 1, 2, 3]
    table = load_runs.outcome(list(found.values()))
    assert len(table.finals) == 3
    text = page.page(list(found.values()))
    assert "All settings" in text and text.count("<section>") == 2


def test_a_method_has_one_colour_whatever_the_company_it_is_in(cells):
    curves = load_runs.load_runs([cells])
    everyone = style.looks(curves)
    for curve in curves:
        assert style.looks([curve])[curve.method] == everyone[curve.method]
    assert len({look.colour for look in everyone.values()}) == len(everyone)
    many = [curves[0]._replace(method=f"variant {k}") for k in range(12)]
    assert len({(look.colour, look.dash) for look in style.looks(many).values()}) == 12
    methods = [curves[0]._replace(method=row.title, name=name) for name, row in registry.METHODS.items()]
    shown = style.looks(methods)
    assert len(methods) > 30 and len({(look.colour, look.dash) for look in shown.values()}) == len(methods)
    for one in methods:  # alone it looks as among all
        assert style.looks([one])[one.method] == shown[one.method]
    assert {look.dash for look in shown.values()} <= {*page.DASHES} & {*plots.LINES}


def test_a_run_in_progress_is_shown_and_said_to_be_so(outcome, tmp_path):
    shutil.copytree(outcome.comparison.cells[0].folder, tmp_path / "cut")
    for name in ("clients.json", "checkpoint.safetensors"):
        (tmp_path / "cut" / name).unlink()
    lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "cut" / "metrics.jsonl").write_text("\n".join(lines[:4]) + "\n" + lines[4][:20])
    text = page.page(load_runs.load_runs([tmp_path / "cut"]))
    assert "Not finished yet: ZO-HFL" in text and "s0-clients-0" not in charts(text)
    assert "ZO-HFL is not finished; it was last judged after round 2 of 6." in text and "<table" not in text


def test_a_run_that_diverged_is_no_result_and_says_why(outcome, tmp_path):
    for k in (0, 1):
        shutil.copytree(outcome.comparison.cells[k].folder, tmp_path / str(k))
    for name in ("clients.json", "checkpoint.safetensors"):
        (tmp_path / "0" / name).unlink()
    lines = (tmp_path / "0" / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "0" / "metrics.jsonl").write_text("\n".join(lines[:4]) + "\n")
    (tmp_path / "0" / "diverged.json").write_text(json.dumps({"after": 2, "by": 4, "why": "the loss rose from 1 to 5000"}))
    curves = load_runs.load_runs([tmp_path])
    assert list(load_runs.outcome(curves).finals) == [("FedAvg", "")]
    assert "Diverged: ZO-HFL (the loss rose from 1 to 5000)." in page.page(curves)


def test_the_baseline_is_that_of_the_comparison_unless_another_is_asked_for(fedtier, cells, tmp_path):
    curves = load_runs.load_runs([cells])  # made by a comparison whose baseline is server_only
    assert load_runs.outcome(curves).comparison.baseline == "server only" != curves[0].method
    assert load_runs.outcome(curves, "fedavg").comparison.baseline == "FedAvg"
    assert fedtier("report", cells, "--out", "r.html")[0] == 0
    assert "Difference to server only" in (tmp_path / "r.html").read_text()
    for k, folder in enumerate(sorted(curve.folder for curve in curves)):  # of two comparisons: neither is the whole's
        shutil.copytree(folder, tmp_path / "two" / str(k))
        labels = json.loads((tmp_path / "two" / str(k) / "labels.json").read_text())
        name = load_runs.load_run(folder).name
        labels["baseline"] = "fedavg" if name == "fedavg" else labels["baseline"]
        (tmp_path / "two" / str(k) / "labels.json").write_text(json.dumps(labels))
    mixed = load_runs.load_runs([tmp_path / "two"])
    assert load_runs.outcome(mixed).comparison.baseline == mixed[0].method == "ZO-HFL"


def test_how_a_cell_was_tuned_is_in_the_store_and_in_the_report(outcome, tmp_path):
    cell = outcome.comparison.cells[0]._replace(folder=tmp_path / "cell", tuned="best of 9 points")
    shutil.copytree(outcome.comparison.cells[0].folder, cell.folder)
    outcomes.run_cells(outcome.comparison._replace(cells=[cell]), Progress(), any_version=True)  # found, labelled anew
    (found,) = load_runs.outcome(load_runs.load_runs([tmp_path])).comparison.cells
    assert found.tuned == "best of 9 points"


def test_a_grid_of_many_clients_is_fainter_for_fewer_rows_and_has_the_server(tmp_path):
    draws = np.random.default_rng(0)
    rows = draws.integers(0, 9, (50, 3))
    counts = LabelCounts("t", 0, ("a", "b", "c"), tuple(map(str, range(50))), rows, rows[:, 0], np.asarray([90, 5, 7]), rows[0])
    chart = charts_of.partition_chart(counts)
    clients, server = chart["data"]
    assert sorted(map(tuple, np.asarray(clients["z"]).T)) == sorted(map(tuple, np.log10(1 + rows).round(3)))
    assert np.asarray(server["z"])[:, 0] == pytest.approx(np.log10([91, 6, 8]), abs=1e-3)
    assert server["text"][0] == ["server: 90 rows of class a"]
    shades = [colour for _, colour in chart["layout"]["coloraxis"]["colorscale"]]
    light, dark = [_sum(shade) for shade in shades], [_sum(style.DARK[shade]) for shade in shades]
    assert light == sorted(light, reverse=True) and dark == sorted(dark)  # the colour of the page for none, in both themes
    figure = plots.partition_figure(counts)
    assert [t.get_text() for t in figure.axes[1].get_xticklabels()] == ["server"]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array()[:, 0], np.log10([91, 6, 8]))


def _sum(colour: str) -> int:
    return sum(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def test_every_colour_of_a_chart_has_one_for_a_dark_page(cells):
    text = json.dumps(charts(page.page(load_runs.load_runs([cells]))))
    used = {colour.upper() for colour in re.findall(r"#[0-9a-fA-F]{6}", text)}
    assert used and used <= set(style.DARK) and len(set(style.DARK)) == len(style.DARK)


def test_a_curve_has_a_point_for_each_evaluation_and_the_demo_about_fifteen(cells):
    drawn = charts(page.page(load_runs.load_runs([cells])))
    lines = [trace for trace in drawn["s0-global-round"]["data"] if "fill" not in trace]
    assert all(trace["x"] == [0, 2, 4, 6] for trace in lines)
    with resources.as_file(resources.files("fedtier.studies") / "demo.toml") as file:
        demo = comparison.load_comparison(file, cells)
    assert all(15 <= len(stops(cell.config)) <= 20 for cell in demo.cells)


def test_names_in_a_configuration_cannot_break_the_page(outcome, tmp_path):
    shutil.copytree(outcome.comparison.cells[0].folder, tmp_path / "odd")
    stored = json.loads((tmp_path / "odd" / "partition.json").read_text())
    stored["labels"] = ["</script><script>alert(1)</script>" for _ in stored["labels"]]
    (tmp_path / "odd" / "partition.json").write_text(json.dumps(stored))
    assert "alert(1)</script>" not in page.page(load_runs.load_runs([tmp_path / "odd"]))


def test_a_folder_without_runs_an_unknown_baseline_and_a_damaged_file_are_refused(fedtier, cells, outcome, tmp_path):
    code, out, err = fedtier("report", tmp_path)
    assert code == 2 and out == "" and "holds no run" in err
    code, _, err = fedtier("report", cells, "--baseline", "nobody")
    assert code == 2 and "--baseline" in err and "fedavg" in err
    assert not (tmp_path / "report.html").exists()
    shutil.copytree(outcome.comparison.cells[0].folder, tmp_path / "bad")
    (tmp_path / "bad" / "clients.json").write_text("[{")
    with pytest.raises(FedtierError, match=r"clients\.json: is damaged"):
        load_runs.load_runs([tmp_path / "bad"])


def test_a_page_names_whose_global_model_was_better_before_the_end(outcome, monkeypatch):
    curves = [load_runs.load_run(cell.folder) for cell in outcome.comparison.cells]
    assert "clearly better before the end" not in page.page(curves)
    late = Late(40, "71.0 %, 2.0 points above the last", "fedtier search a <b> --over run.rounds=20,40")
    monkeypatch.setattr(page.findings, "past_best", lambda curve: late if curve.name == "fedavg" else None)
    text = page.page(curves)
    fedavg = next(curve for curve in curves if curve.name == "fedavg")
    assert f"before the end: {fedavg.method} at round 40 (71.0 %, 2.0 points above the last)." in text
    assert "<code>fedtier search a &lt;b&gt; --over run.rounds=20,40</code>" in text


def test_rounds_that_were_searched_for_a_method_make_no_setting(outcome, tmp_path):
    for name, rounds in (("fedavg", 7), ("server_only", 9)):
        cell = next(cell for cell in outcome.comparison.cells if cell.config.method.name == name)
        config = cell.config.model_copy(update={"run": cell.config.run.model_copy(update={"rounds": rounds})})
        shutil.copytree(cell.folder, tmp_path / name)
        (tmp_path / name / "config.toml").write_text(config.toml())
    apart = {curve.setting for curve in load_runs.load_runs([tmp_path])}
    assert apart == {"rounds = 7", "rounds = 9"}
    for file in tmp_path.glob("*/labels.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"own_rounds": True}))
    assert {curve.setting for curve in load_runs.load_runs([tmp_path])} == {""}
