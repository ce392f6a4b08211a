"""Comparisons: cells that run once, intervals from closed forms, tables in every format."""

import csv
import io
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedtier.errors import FedtierError, FedtierWarning
from fedtier.experiments import comparison, outcomes
from fedtier.experiments import config as configuration
from fedtier.experiments.comparison import Comparison
from fedtier.experiments.outcomes import Interval, Outcome
from fedtier.experiments.progress import Progress
from fedtier.reports import load_runs, tables

from ..small_runs import METHODS, SHORT, options


def row(seed: int, accuracy: float | None, worst: float = 0.5) -> dict:
    return {"seed": seed, "global_accuracy": accuracy, "personal_accuracy": {"mean": worst, "min": worst, "p10": worst}}


def made_up(finals: dict, baseline: str = "a") -> Outcome:
    config = configuration.load_config(None, ["data.test_seed=0"])  # all seeds have the same test rows
    cells = [comparison.Cell(m, s, config, Path("runs") / m) for m, s in finals]
    return Outcome(Comparison(cells, baseline, ("global",)), finals)


def test_the_interval_is_students():
    # t quantile 0.975 with 2 degrees of freedom: 4.302653; the standard deviation of 1, 2, 3 is 1
    found = outcomes.interval(np.asarray([1.0, 2.0, 3.0]))
    assert found.mean == 2.0 and found.half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert np.isnan(outcomes.interval(np.asarray([5.0])).half) and np.isnan(outcomes.interval(np.asarray([])).mean)


def test_differences_are_paired_by_seed_whatever_the_order():
    finals = {("a", ""): [row(0, 0.5), row(1, 0.9)], ("b", ""): [row(1, 1.0), row(0, 0.6), row(7, 0.1)]}
    found = outcomes.paired(made_up(finals), "b", "", "global")
    assert found.mean == pytest.approx(10.0) and found.half == pytest.approx(0.0, abs=1e-9)


def test_what_no_method_measured_is_a_dash_and_a_single_seed_has_no_interval():
    assert tables.show(Interval(float("nan"), float("nan")), "global") == "-"
    assert tables.show(Interval(91.234, float("nan")), "global") == "91.23"
    assert tables.show(Interval(1.0, 0.5), "global", plus="+") == "+1.00 ± 0.50"
    assert tables.show(Interval(1.0, 0.5), "loss") == "1.0000 ± 0.5000"


def test_every_format_tells_the_same_numbers():
    finals = {("a", ""): [row(0, 0.5), row(1, 0.7)], ("b_1", ""): [row(0, 0.6), row(1, 0.8)], ("c", ""): [row(0, None)]}
    outcome = made_up(finals)
    words = tables.markdown(outcome).splitlines()
    assert words[0] == "| method | seeds | global % | Δ global (points) |" and words[1] == "| --- | ---: | ---: | ---: |"
    assert words[2].startswith("| a | 2 | 60.00 ± 127.06 |") and words[3].endswith("| +10.00 ± 0.00 |")
    assert words[4] == "| c | 1 | - | - |"

    tex = tables.latex(outcome)
    assert "\\toprule" in tex and "\\midrule" in tex and "\\bottomrule" in tex and "\\begin{tabular}{lrrr}" in tex
    assert "b\\_1 & 2 & $70.00 \\pm 127.06$ & $+10.00 \\pm 0.00$ \\\\" in tex and tex.isascii()
    assert all(line.count("&") == 3 for line in tex.splitlines() if line.endswith("\\\\"))

    rows = list(csv.DictReader(io.StringIO(tables.comma_separated(outcome))))
    assert [r["method"] for r in rows] == ["a", "b_1", "c"] and rows[2]["global_mean"] == ""
    assert float(rows[1]["global_difference"]) == pytest.approx(10.0) and rows[0]["global_difference"] == ""

    content = json.loads(json.dumps(tables.as_object(outcome), allow_nan=False))
    assert content["cells"][1]["metrics"]["global"]["difference"]["mean"] == pytest.approx(10.0)
    assert content["cells"][2]["metrics"]["global"]["mean"] is None


@pytest.mark.slow
def test_a_finished_cell_is_found_again_and_a_cut_one_is_resumed(outcome, monkeypatch, tmp_path):
    monkeypatch.setattr(outcomes, "begin", lambda *a, **k: pytest.fail("ran again"))
    monkeypatch.setattr(outcomes, "go_on", lambda *a, **k: pytest.fail("resumed"))
    said: list[str] = []
    heard = Progress()
    heard.say = lambda *lines: said.extend(lines)
    assert outcomes.run_cells(outcome.comparison, heard).finals == outcome.finals
    assert said[0].startswith("synthetic: ") and "4 natural clients" in said[0]  # which data the numbers are of
    resumed = []
    cut = outcome.comparison.cells[1]._replace(folder=tmp_path / "cut")
    shutil.copytree(outcome.comparison.cells[1].folder, cut.folder)
    (cut.folder / "clients.json").unlink()  # the last file of a run
    monkeypatch.setattr(outcomes, "go_on", lambda e, files, **k: resumed.append(files.folder) or SimpleNamespace(final=[]))
    outcomes.run_cells(outcome.comparison._replace(cells=[cut]), Progress())
    assert resumed == [cut.folder]


@pytest.mark.slow
def test_the_command_compares_by_flags_and_writes_every_format(fedtier, cells, tmp_path):
    store = shutil.copytree(cells, tmp_path / "cells")  # the labels of its cells are written anew
    words = ["compare", "--methods", *METHODS[:3], *options(SHORT), "--seeds", "2", "--store", store, "--baseline", "fedavg"]
    code, out, err = fedtier(*words)
    assert code == 0 and "fedavg" in out and "Δ global" in out and "±" in out and err.count("found in the store") == 4
    code, out, _ = fedtier(*words, "--json")
    content = json.loads(out)
    assert code == 0 and content["baseline"] == "fedavg" and [c["method"] for c in content["cells"]] == list(METHODS)
    assert all(c["seeds"] == [0, 1] for c in content["cells"])
    for name, start in (("t.md", "| method"), ("t.tex", "% mean"), ("t.csv", "setting,method")):
        code, out, _ = fedtier(*words, "--out", tmp_path / name)
        assert code == 0 and (tmp_path / name).read_text().startswith(start) and "━" in out
    code, out, _ = fedtier(*words, "--format", "csv")
    assert code == 0 and out == (tmp_path / "t.csv").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "fedvag"], ["method.name", "did you mean 'fedavg'?"]),
        (["--methods", "fedavg", "fedavg"], ["stands twice"]),
        (["--methods", "fedavg", "--baseline", "scaffold"], ["compare.baseline", "scaffold"]),
        (["--methods", "fedavg", "--set", "method.smoothing=1"], ["method.smoothing", "fedavg"]),
        (["--methods", "fedavg", "--seeds", "0"], ["run.seeds"]),
    ],
)
def test_impossible_comparisons_are_refused_before_any_work(fedtier, tmp_path, words, said):
    code, out, err = fedtier("compare", *words)
    assert code == 2 and out == "" and all(word in err for word in said), err
    assert not list(tmp_path.iterdir())


def test_a_file_of_methods_and_settings_gives_their_product(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        '[run]\nrounds = 3\n[[methods]]\nlabel = "A"\nname = "fedavg"\nrun.tau = 2\n[[methods]]\nname = "server_only"\n'
        '[[settings]]\nlabel = "few"\ndata.alpha = 0.1\n[[settings]]\nlabel = "many"\ndata.alpha = 10.0\n'
    )
    plan = comparison.load_comparison(file, tmp_path / "cells", ("run.seed=4",))
    assert [(c.method, c.setting) for c in plan.cells] == [
        ("A", "few"),
        ("server_only", "few"),
        ("A", "many"),
        ("server_only", "many"),
    ]
    assert (
        plan.baseline == "A"
        and {c.config.run.rounds for c in plan.cells} == {3}
        and {c.config.run.seed for c in plan.cells} == {4}
    )
    assert plan.cells[0].config.run.tau == 2 and plan.cells[2].config.data.alpha == 10.0
    assert len({c.folder for c in plan.cells}) == 4
    moved = comparison.load_comparison(
        file, tmp_path / "cells", ("run.seed=4", "run.checkpoint_every=7", "data.folder=elsewhere")
    )
    assert [c.folder for c in moved.cells] == [c.folder for c in plan.cells]  # neither changes a number
    file.write_text("[run]\nrounds = 3\n")
    with pytest.raises(FedtierError, match="methods"):
        comparison.load_comparison(file, tmp_path)


TUNED = """
[run]
rounds = 4
tau = 1
seeds = 2
eval_every = 2
[data]
name = "synthetic"
clients = 3
partition = "natural"
[[methods]]
label = "steady"
name = "server_only"
[[methods]]
label = "wild one"
name = "server_only"
[[settings]]
label = "set 1"
[[settings]]
label = "set 1000"
data.server_share = 0.4
[[tuned]]
where = "WILD 1"
server_lr = "constant(1e30)"
"""


def test_what_is_tuned_goes_to_the_cells_whose_labels_hold_all_the_words(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(TUNED)
    steps = [
        (c.method, c.setting, c.config.method.options["server_lr"]) for c in comparison.load_comparison(file, tmp_path).cells
    ]
    assert steps == [
        ("steady", "set 1", "inverse_sqrt(0.003)"), ("wild one", "set 1", "constant(1e30)"),
        ("steady", "set 1000", "inverse_sqrt(0.003)"), ("wild one", "set 1000", "inverse_sqrt(0.003)"),
    ]  # fmt: skip
    for words in ("wilder", "wild 100"):
        file.write_text(TUNED.replace("WILD 1", words))
        with pytest.raises(FedtierError, match="chooses no cell"):
            comparison.load_comparison(file, tmp_path)
    file.write_text(TUNED.replace("server_lr =", "server_lrr ="))
    with pytest.raises(FedtierError, match="did you mean 'server_lr'"):
        comparison.load_comparison(file, tmp_path)


@pytest.mark.slow
def test_a_cell_that_diverges_is_an_outcome_and_the_others_are_run(tmp_path, monkeypatch):
    file = tmp_path / "c.toml"
    file.write_text(TUNED)
    plan = comparison.load_comparison(file, tmp_path / "cells")
    with pytest.warns(FedtierWarning, match=r"wild one set 1: .*diverged"):
        outcome = outcomes.run_cells(plan, Progress())
    sizes = {key: len(rows) for key, rows in outcome.finals.items()}
    assert sizes == {("steady", "set 1"): 2, ("wild one", "set 1"): 0, ("steady", "set 1000"): 2, ("wild one", "set 1000"): 2}
    assert "| set 1 | wild one | 0 | - |" in tables.markdown(outcome)
    monkeypatch.setattr(outcomes, "begin", lambda *a, **k: pytest.fail("ran again"))
    monkeypatch.setattr(outcomes, "go_on", lambda *a, **k: pytest.fail("resumed"))
    assert outcomes.run_cells(plan, Progress()).finals == outcome.finals


@pytest.mark.slow
def test_a_report_calls_the_cells_of_a_file_by_its_labels(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(TUNED.split("[[tuned]]", maxsplit=1)[0].replace('label = "wild one"', 'server_lr = 0.02\nlabel = "longer"'))
    outcomes.run_cells(comparison.load_comparison(file, tmp_path / "cells"), Progress())
    named = {("steady", "set 1"), ("longer", "set 1"), ("steady", "set 1000"), ("longer", "set 1000")}
    assert {(curve.method, curve.setting) for curve in load_runs.load_runs([tmp_path / "cells"])} == named
    for labels in (tmp_path / "cells").glob("*/labels.json"):  # names that do not tell the runs apart are not used
        labels.write_text(json.dumps({"method": "same", "setting": "same"}))
    settings = {curve.setting for curve in load_runs.load_runs([tmp_path / "cells"])}
    assert settings == {"server_share = 0.3", "server_share = 0.4"}
