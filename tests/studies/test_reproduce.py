"""The paper's table and figures: every cell as described, sentences from made-up outcomes, tiny runs of the commands."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import comparison, tuning
from fedtier.experiments import config as configuration
from fedtier.experiments.grids import points_of
from fedtier.experiments.outcomes import Outcome
from fedtier.experiments.progress import Progress
from fedtier.methods import METHODS
from fedtier.reports.load_runs import Curve
from fedtier.studies import catalogue
from fedtier.studies.methods import reproduce as all_methods
from fedtier.studies.paper import implicit, local_steps, orderings, reproduce, table
from fedtier.studies.study import Order

from ..datasets import layouts
from ..small_runs import options

FOLDER = Path(reproduce.__file__).parent
TINY = ["run.rounds=2", "run.seeds=2", "run.tau=1", "data.clients=3", "run.eval_every=1"]
NAMES = ("table1", "figure1", "figure2", "figure3")


@pytest.fixture
def mnist(tmp_path, monkeypatch) -> Path:
    """200 rows in MNIST's layout, and the setting that names their folder."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    draws = np.random.default_rng(0)
    parts = [(draws.integers(0, 256, (rows, 28, 28)), np.arange(rows) % 10) for rows in (160, 40)]
    for name, array in zip(layouts.IDX, [array for part in parts for array in part], strict=True):
        (folder / name).write_bytes(layouts.idx_bytes(array))
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture(scope="module")
def tables() -> dict:
    return reproduce.load_tables("table1")


def whole_comparison(tables: dict, store: Path = Path("cells")) -> comparison.Comparison:
    return comparison.make_comparison({k: v for k, v in tables.items() if k not in ("paper", "quick", "figure")}, store)


@pytest.mark.slow
def test_the_table_has_twelve_rows_in_nine_settings_and_the_same_local_steps_for_all(tables):
    plan = whole_comparison(tables)
    assert len(plan.cells) == 108 and len({cell.folder for cell in plan.cells}) == 108
    for cell in plan.cells:
        config = cell.config
        solves = {"zo_hfl": 2, "server_only": 0}.get(config.method.name, 1)
        assert (solves == 0 or solves * config.run.tau == 40) and config.run.rounds == 500
        image_net = config.data.name == "cifar10"
        assert config.data.test_seed == 0 and config.run.seeds == (3 if image_net else 5) and config.data.clients == 10
        assert config.model.name == ("cnn" if image_net else "softmax")
        half = image_net and config.method.name in ("fedavg", "fedprox", "scaffold")
        assert config.model.precision == ("half" if half else "full")
        assert cell.setting == f"{config.data.name} ({config.data.alpha:g}, {100 * config.run.participation:g} %)"
        assert config.method.server_seat == ("server data" in cell.method)


@pytest.mark.slow
def test_the_published_method_has_the_papers_constants(tables):
    for cell in whole_comparison(tables).cells:
        if cell.method == "ZO-HFL, as published":
            chosen = cell.config.method.options
            kept = {key: chosen[key] for key in ("estimator", "smoothing", "directions", "server_steps", "server_step")}
            assert kept == {"estimator": "sphere", "smoothing": 0.1, "directions": 1, "server_steps": 1, "server_step": "sgd"}
            assert (chosen["server_lr"], chosen["client_lr"]) == ("inverse_sqrt(0.01)", "inverse(0.1)")


def test_every_published_number_has_its_place(tables):
    accuracy = tables["paper"]["accuracy"]
    assert len(accuracy) == 9 and all(set(row) == {"FedAvg", "FedProx", "SCAFFOLD", "ZO-HFL"} for row in accuracy.values())
    sums = {"FedAvg": 519.34, "FedProx": 529.82, "SCAFFOLD": 678.21, "ZO-HFL": 686.53}  # of the published rows
    assert {method: round(sum(row[method] for row in accuracy.values()), 2) for method in sums} == sums


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.stem)
def test_every_file_states_command_machine_minutes_numbers_and_tolerance(file):
    header = file.read_text().split("\n[")[0]
    for word in ("command", "machine", "minutes", "expect", "tolerance"):
        assert re.search(rf"^# {word}  ", header, re.MULTILINE), word


FAIR = FOLDER.parent / "heterogeneity"


@pytest.mark.parametrize("file", sorted(FAIR.glob("*.toml")), ids=lambda file: file.stem)
def test_a_study_treats_all_alike_and_searches_each_over_as_many_points(file):
    """Equal local gradients, the server's rows for all that can seat them, one size of search, and what to expect."""
    tables = configuration.read_toml(file)
    found = comparison.make_comparison(tables, Path("cells"))
    sizes = {points_of(grid) for cell in found.cells if (grid := tuning.grid_of(cell))}
    searched = any("search" in method for method in tables["methods"])  # else: the registry's grids, if anyone asks for them
    net = tables.get("model", {}).get("name") == "cnn"
    assert sizes == {8 if net and searched else 16}  # nets: fewer, all alike
    assert all(
        cell.config.method.server_seat for cell in found.cells if cell.config.method.name in ("fedavg", "scaffold", "ditto")
    )
    for setting in {cell.setting for cell in found.cells}:
        configs = [cell.config for cell in found.cells if cell.setting == setting]
        assert len({config.run.tau * solves for config in configs if (solves := configuration.solves(config))}) == 1
    assert {"command", "machine", "expect", "tolerance"} <= set(re.findall(r"^# (\w+)  ", file.read_text(), re.M))


@pytest.mark.slow
def test_what_the_paper_leaves_open_is_a_point_of_its_grid_in_every_setting(tables):
    """Seen: one penalty for all settings cost 17 points where one client takes part."""
    plan = whole_comparison(tables)
    open_rows = [cell for cell in plan.cells if cell.grid]
    assert {cell.method for cell in open_rows} == {"ZO-HFL, as published", "ZO-HFL, pre-trained"}
    for cell in open_rows:
        method = cell.config.method
        assert method.penalty in cell.grid["penalty"] and method.proximity in cell.grid["proximity"]
    chosen = {cell.setting: cell.config.method.penalty for cell in open_rows if cell.method == "ZO-HFL, as published"}
    assert chosen["mnist (0.1, 10 %)"] == 0.01 and chosen["fashion-mnist (0.1, 10 %)"] == 0.03


def rows(*accuracies: float) -> list[dict]:
    return [{"seed": seed, "global_accuracy": value} for seed, value in enumerate(accuracies)]


PAPER = orderings.Published(
    "here", {"A": "a", "B": "b", "C": "b"}, [("A", "B")], ["B"],
    {"set (1, 2 %)": {"a": 60.0, "b": 50.0}, "set (3, 4 %)": {"a": 40.0, "b": 45.0}},
)  # fmt: skip


def judged(**finals) -> list[orderings.Ordering]:
    names = {"first": "set (1, 2 %)", "second": "set (3, 4 %)"}
    found = {(key[0], names[key[2:]]): value for key, value in finals.items()}
    return orderings.orderings(Outcome(comparison.Comparison([], "A", ("global",)), found), PAPER)


def test_an_ordering_holds_is_reversed_or_is_uncertain_by_the_paired_interval():
    # differences 10, 11, 12 points: 11 ± 4.302653 sqrt(1/3), whatever the spread of the seeds themselves
    (one,) = judged(A_first=rows(0.5, 0.71, 0.92), B_first=rows(0.4, 0.6, 0.8))
    assert one.sentence() == "A above B on set (1, 2 %): paper yes (+10.00), here +11.00 ± 2.48: holds"
    (one,) = judged(A_second=rows(0.5, 0.71, 0.92), B_second=rows(0.4, 0.6, 0.8))
    assert one.sentence() == "A above B on set (3, 4 %): paper no (-5.00), here +11.00 ± 2.48: reversed"
    (one,) = judged(A_first=rows(0.5, 0.5), B_first=rows(0.4, 0.6))
    assert one.verdict == "uncertain"
    (one,) = judged(A_first=rows(0.9), B_first=rows(0.1))
    assert one.verdict == "uncertain" and "±" not in one.sentence()
    (one,) = judged(A_first=[], B_first=rows(0.1, 0.2))
    assert one.verdict == "not measured" and one.sentence().endswith("not measured here")


def test_a_row_that_falls_from_one_setting_to_the_next_is_told():
    (one,) = judged(B_first=rows(0.9, 0.9, 0.9), B_second=rows(0.5, 0.6, 0.7))
    assert one.words == "B above itself at (3, 4 %), on set (1, 2 %)" and one.paper == 5.0 and one.verdict == "holds"
    other = one._replace(verdict="uncertain", row="A", published=("a", "here", "b", "here"))
    assert orderings.summary([one, other]) == [
        "orderings of the paper: 2: 1 hold, 1 uncertain", "B: 1: 1 hold", "A: 1: 1 uncertain",
    ]  # fmt: skip


def test_what_the_paper_does_not_say_can_be_neither_held_nor_reversed():
    paper = PAPER._replace(accuracy={"set (1, 2 %)": {"a": 60.0}})
    finals = {("A", "set (1, 2 %)"): rows(0.5, 0.71, 0.92), ("B", "set (1, 2 %)"): rows(0.4, 0.6, 0.8)}
    (one,) = orderings.orderings(Outcome(comparison.Comparison([], "A", ("global",)), finals), paper)
    assert one.verdict == "not published" and one.sentence() == "A above B on set (1, 2 %): not in the paper"
    (one,) = orderings.orderings(
        Outcome(comparison.Comparison([], "A", ("global",)), finals),
        PAPER._replace(accuracy={"set (1, 2 %)": {"a": 0.0, "b": 1.0}}),
    )
    assert one.verdict == "reversed" and one.paper == -1.0  # 0 is a number


def test_the_papers_48_orderings_count_once_though_two_rows_stand_for_its_method(tables):
    """ZO-HFL against three in nine settings, SCAFFOLD against FedAvg in nine, two rows that fall twice on three data sets."""
    methods, settings = ([entry["label"] for entry in tables[key]] for key in ("methods", "settings"))
    paper = orderings.published(tables["paper"], methods, settings)
    good = {"ZO-HFL, as published": 0.9, "ZO-HFL, fedtier": 0.1}
    finals = {(m, s): rows(good.get(m, 0.5), good.get(m, 0.5) + 0.01) for s in settings for m in methods}
    found = orderings.orderings(Outcome(comparison.Comparison([], "SCAFFOLD", ("global",)), finals), paper)
    first, *by_row = orderings.summary(found)
    assert len(found) == 75 and first.startswith(f"orderings of the paper: {27 + 9 + 12}: ")
    assert [line.split(":")[:2] for line in by_row if line.startswith("ZO")] == [
        ["ZO-HFL, as published", " 27"], ["ZO-HFL, fedtier", " 27"],
    ]  # fmt: skip
    held = [one for one in found if one.verdict == "holds" and one.row != "ZO-HFL, fedtier"]
    assert f" {len(held)} hold," in first  # the paper's method counts, not what we made of it


def test_a_claim_about_a_row_or_setting_that_is_not_there_is_refused(tables):
    methods, settings = ([entry["label"] for entry in tables[key]] for key in ("methods", "settings"))
    orderings.published(tables["paper"], methods, settings)
    with pytest.raises(FedtierError, match="is no method of this file"):
        orderings.published(tables["paper"], methods[1:], settings)
    with pytest.raises(FedtierError, match="is no setting of this file"):
        orderings.published(tables["paper"], methods, settings[1:])


def test_the_table_shows_ours_beside_the_papers_and_says_what_diverged():
    finals = {("A", "set (1, 2 %)"): rows(0.5, 0.7), ("B", "set (1, 2 %)"): [], ("A", "set (3, 4 %)"): rows(0.25)}
    (grid,) = table.grids(Outcome(comparison.Comparison([], "A", ("global",)), finals), PAPER)
    assert grid.title == "set" and grid.headings == ["method", "(1, 2 %)", "paper", "(3, 4 %)", "paper"]
    assert grid.rows == [["A", "60.00 ± 127.06", "60.00", "25.00", "40.00"], ["B", "diverged", "50.00", "", "45.00"]]


@pytest.mark.slow
@pytest.mark.checked
def test_parts_run_by_several_processes_make_one_table_in_every_format(fedtier, mnist, tmp_path):
    words = ["reproduce", "table1", "--quick", *options(TINY), "--store", "cells", "--out", "out"]
    code, out, err = fedtier(*words, "--only", "fedavg 1000")
    assert code == 0 and "FedAvg + server data" in out and "SCAFFOLD" not in out and "found" not in err, err
    code, out, err = fedtier(*words, "--only", "published zo-hfl 1000")
    assert code == 0 and "[1/1]" in err, err
    code, out, err = fedtier(*words, "--only", "fedavg 1000", "--only", "published zo-hfl 1000", "--json")
    content = json.loads(out)
    assert code == 0 and err.count("found in the store") == 3
    assert content["how"] == "quick, not the full result: 2 rounds, 2 seeds"
    assert [(cell["method"], cell["paper"], len(cell["values"])) for cell in content["cells"]] == [
        ("FedAvg", 87.17, 2), ("ZO-HFL, as published", 90.82, 2), ("FedAvg + server data", None, 2),
    ]  # fmt: skip
    assert [claim["claim"] for claim in content["orderings"]] == ["ZO-HFL, as published above FedAvg on mnist (1000, 90 %)"]
    lines = list(csv.DictReader((tmp_path / "out" / "table1.csv").open()))
    assert [float(line["mean"]) for line in lines] == pytest.approx([cell["mean"] for cell in content["cells"]])
    assert "| FedAvg | " in (tmp_path / "out" / "table1.md").read_text()
    assert "\\toprule" in (tmp_path / "out" / "table1.tex").read_text()
    assert json.loads((tmp_path / "out" / "table1.json").read_text()) == content
    labels = {json.loads(file.read_text())["method"] for file in (tmp_path / "cells").glob("*/labels.json")}
    assert labels == {"FedAvg", "ZO-HFL, as published", "FedAvg + server data"}


@pytest.mark.slow
def test_figure_1_counts_every_row_once_in_each_partition(fedtier, mnist, tmp_path):
    code, out, err = fedtier("reproduce", "figure1", *options(["data.clients=3"]), "--out", "pictures", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert list(content["partitions"]) == ["alpha = 1000", "alpha = 1", "alpha = 0.1"]
    for one in content["partitions"].values():
        assert sum(map(sum, one["clients"])) + sum(one["server"]) + sum(one["test"]) == 200
    assert [Path(file).read_bytes()[:4] for file in content["files"]] == [b"<?xm", b"%PDF", b"\x89PNG"]


@pytest.mark.slow
@pytest.mark.checked
def test_figure_2_draws_each_method_and_tau_from_cells_of_the_table(fedtier, mnist, tmp_path):
    tiny = [*TINY[:2], *TINY[3:]]  # its taus are the point
    words = ["reproduce", "figure2", "--quick", *options(tiny), "--store", "cells", "--only", "published 0.1", "--json"]
    code, out, err = fedtier(*words)
    assert code == 0, err
    methods = [cell["method"] for cell in json.loads(out)["cells"]]
    row = "ZO-HFL, as published"
    assert methods == [
        f"{row}{rest}" for rest in (", tau = 5", "", ", tau = 50", ", tau = 5, larger mu", ", tau = 50, larger mu")
    ]
    content = json.loads(out)
    assert [line.partition(": ")[0] for line in content["sentences"]] == 2 * [f"{row} on mnist (0.1, 10 %)"]
    mus = {
        tables["method"]["proximity"]
        for file in (tmp_path / "cells").glob("*/config.toml")
        if (tables := configuration.read_toml(file))
    }
    assert mus == {0.1, 1.0}  # what is tuned for the row does not undo the larger mu
    picture = (tmp_path / "figures" / "figure2.svg").read_text()
    assert all(f"τ = {tau}" in picture for tau in (5, 20, 50)) and all(
        word in picture for word in ("(0.1, 10 %)", "mnist", "larger μ")
    )
    code, _, err = fedtier(
        "reproduce", "table1", "--quick", *options(tiny), "--store", "cells", "--only", "zo-hfl published 0.1"
    )
    assert code == 0 and err.count("found in the store") == 1


@pytest.mark.slow
@pytest.mark.checked
def test_figure_2_draws_what_a_store_has_and_says_what_it_lacks(fedtier, mnist, tmp_path):
    words = ["reproduce", "figure2", "--quick", *options([*TINY[:2], *TINY[3:]]), "--store", "cells", "--json"]
    pair = ["--only", "published tau 5 0.1", "--only", "published tau 50 0.1"]
    code, out, err = fedtier(*words, *pair, "--stored")
    assert code == 2 and "--store = 'cells': is not a folder" in err
    code, out, err = fedtier(*words, *pair)
    assert code == 0, err
    whole = json.loads(out)
    few, many = ([line for line in whole["cells"] if line["method"].endswith(f"tau = {tau}")] for tau in (5, 50))
    assert len(few) == len(many) == 1 and any("tau = 50 instead of 5" in line for line in whole["sentences"])
    (cut,) = [f.parent for f in (tmp_path / "cells").glob("*/config.toml") if tau_and_mu(f) == (50.0, 0.1)]
    rows = (cut / "metrics.jsonl").read_text().splitlines(keepends=True)
    (cut / "metrics.jsonl").write_text("".join(line for line in rows if json.loads(line)["round"] < 2))
    for name in ("clients.json", "checkpoint.safetensors", "previous-checkpoint.safetensors"):  # as they are in a run's midst
        (cut / name).unlink(missing_ok=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")}
    code, out, err = fedtier(*words, "--only", "published 0.1", "--stored")
    assert code == 0, err
    content = json.loads(out)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("metrics.jsonl")} == before
    row, where = "ZO-HFL, as published", "mnist (0.1, 10 %)"
    assert content["sentences"][-2:] == [
        f"{row} on {where}: not in the store",
        f"{row}, tau = 50 on {where}: cut at round 1 of 2",
    ]
    assert not any("tau = 50 instead of 5 changes" in line for line in content["sentences"])
    assert few[0] in content["cells"] and content["how"].startswith("quick")
    assert [line["accuracy"].partition(", ")[2] for line in content["cells"] if line["method"] == f"{row}, tau = 50"] == [
        "cut at round 1 of 2"
    ]
    code, _, err = fedtier(*words, "--only", "published 1000", "--stored")
    assert code == 2 and "has nothing to show" in err and "not in the store" in err


def tau_and_mu(file: Path) -> tuple[float, float]:
    written = configuration.read_toml(file)
    return written["run"]["tau"], written["method"]["proximity"]


def test_the_sentences_about_local_steps_compare_mean_losses_seed_by_seed():
    def curve(setting, *losses):
        rows = [{"round": r, "seed": seed, "global_loss": a} for seed, seen in enumerate(losses) for r, a in enumerate(seen)]
        return Curve("", setting, "zo_hfl", configuration.load_config(None), Path(), rows, [], True, None)

    about = {"methods": ["Z"], "taus": [5, 50], "larger_mu": 7.0, "extreme": "b"}
    key = local_steps.Key
    curves = {
        key("Z", 5.0): [curve("a", [9, 1.0, 3.0], [9, 2.0, 2.0]), curve("b", [9, 1.0], [9, 1.0])],
        key("Z", 50.0): [curve("a", [9, 0.5, 1.5], [9, 1.0, 0.98]), curve("b", [9, 0.0], [9, 2.0])],
        key("Z", 5.0, True): [curve("b", [9, 1.5], [9, 1.5])],
        key("Z", 50.0, True): [curve("b", [9, 1.1], [9, 1.1])],
    }
    first, second, third = local_steps.sentences(curves, about)
    assert first.startswith("Z on a: tau = 50 instead of 5 changes the loss by -1.0050 ± 0.0635, faster")  # -1 and -1.01
    assert second.startswith("Z on b: tau = 50 instead of 5 changes the loss by +0.0000") and second.endswith("not told apart")
    assert "at tau = 50 7 times mu changes it by +0.1000" in third and third.endswith("by -0.4000 ± 0.0000, faster")
    *_, last = local_steps.sentences(curves | {key("Z", 5.0, True): []}, about)
    assert last == "Z on b: with a larger mu not all runs are there, or one diverged"
    alone = {
        key("Z", 5.0): [curve("a", [9, 2.0])],
        key("Z", 50.0): [curve("a", [9, 1.5])],
        key("Z", 5.0, True): [],
        key("Z", 50.0, True): [],
    }
    assert local_steps.sentences(alone, about)[0].endswith("by -0.5000 in one seed, which tells nothing of others")
    cut = alone[key("Z", 50.0)][0]._replace(finished=False)
    assert local_steps.sentences(alone | {key("Z", 50.0): [cut]}, about) == []


def test_a_seed_that_diverged_is_counted_and_not_compared():
    def curve(*losses):
        rows = [{"round": r, "seed": seed, "global_loss": a} for seed, seen in enumerate(losses) for r, a in enumerate(seen)]
        return Curve("", "a", "zo_hfl", configuration.load_config(None), Path(), rows, [], True, None)

    key, about = local_steps.Key, {"methods": ["Z"], "taus": [5, 50], "larger_mu": 7.0, "extreme": "b"}
    few, many = curve([9, 2.0, 2.0], [9, 80.0], [9, 3.0, 3.0]), curve([9, 1.0, 1.0], [9, 1.0, 1.0], [9, 2.0, 2.0])
    curves = {key("Z", 5.0): [few], key("Z", 50.0): [many], key("Z", 5.0, True): [], key("Z", 50.0, True): []}
    (said,) = local_steps.sentences(curves, about)
    assert said.endswith("by -1.0000 ± 0.0000, faster (1 diverged before, 0 after)")
    (said,) = local_steps.sentences(
        curves | {key("Z", 5.0): [curve([9], [9, 2.0, 2.0])], key("Z", 50.0): [curve([9, 1.0, 1.0], [9])]}, about
    )
    assert said.endswith("no seed ended both (1 diverged before, 1 after)")


def test_the_larger_mu_is_ten_times_the_rows_own_in_the_extreme_setting():
    tables = reproduce.load_tables("figure2")
    drawn = local_steps.variants(tables)
    cells = local_steps.shown(whole_comparison(local_steps.comparison_tables(tables, drawn)), drawn, tables["figure"]).cells
    own = {
        (cell.method.partition(", tau")[0], cell.setting): cell.config.method.proximity
        for cell in cells
        if ", larger" not in cell.method
    }
    larger = [cell for cell in cells if ", larger" in cell.method]
    assert {cell.setting for cell in larger} == {f"{name} (0.1, 10 %)" for name in ("mnist", "fashion-mnist", "cifar10")}
    for cell in larger:
        assert cell.config.method.proximity == 10 * own[cell.method.partition(", tau")[0], cell.setting]
    assert len({cell.folder for cell in cells}) == len(cells) == 2 * (9 * 3 + 3 * 2)


@pytest.mark.slow
@pytest.mark.checked
def test_figure_3_is_the_closed_form_and_smoothing_sees_past_the_flat_part(fedtier, tmp_path):
    grid = np.linspace(-2, 1, 301)
    np.testing.assert_allclose(implicit.solved(grid[:, None]), 0.5 * (grid + 1 - np.maximum(grid, 0)) ** 2, atol=1e-6)
    found = implicit.picture([0.5], -2.0, 1.0, start=0.2, rounds=1, server_lr="constant(0.05)")
    one = implicit.f(found.plane)  # n = 2: a sum over the coordinates
    np.testing.assert_allclose(found.surface, one[:, None] + one[None, :], atol=1e-6)
    for eta in (0.1, 0.5):  # against a plain mean over 4,001 points
        means = [np.mean(implicit.f(x + eta * np.linspace(-1, 1, 4001))) for x in grid[::30]]
        np.testing.assert_allclose(implicit.smooth(grid[::30], eta), means, atol=1e-3)
        np.testing.assert_allclose(
            np.gradient(implicit.smooth(grid, eta), grid)[1:-1], implicit.slope(grid, eta)[1:-1], atol=0.03
        )
    code, out, err = fedtier("reproduce", "figure3", "--out", "p", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["error"] < 1e-5 and (tmp_path / "p" / "figure3.pdf").exists()
    assert content["ends"]["0.1"] == pytest.approx(0.2)  # no probe reaches the kink: nothing moves
    assert content["ends"]["0.25"] == pytest.approx(-1.0, abs=0.01) and content["ends"]["0.5"] == pytest.approx(-1.0, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table2"], ["NAME = 'table2'", "did you mean 'table1'?"]),
        (["table1", "--only", "mnits"], ["--only = 'mnits'", "chooses no cell", "fashion-mnist"]),
        (["table1", "--only", "mnist 7"], ["--only", "chooses no cell: no label has 7"]),
        (["table1", "--only", " "], ["--only", "holds no word"]),
        (["figure2", "--only", "larger mnist 1", "--out", "new/pictures"], ["--only", "no label has all of these words"]),
        (["table1", "--quick", "--only", "cifar10"], ["--only = 'cifar10'", "chooses no cell"]),
        (["table1", "--only", "mnist", "--set", "run.round=3"], ["run.round", "did you mean 'rounds'?"]),
        (["figure2", "--set", "run.tau=3"], ["--set = 'run.tau=3'", "numbers of local steps"]),
        (["figure2", "--set", "run.local_steps=3"], ["--set", "numbers of local steps"]),
        (["figure3", "--set", "run.rounds=3"], ["--set", "figure3 has no cells"]),
        (["figure3", "--only", "mnist"], ["--only", "figure3 has no cells"]),
        (["figure1"], ["FEDTIER_DATA", "nowhere"]),
        (["table1", "--only", "server published mnist 1"], ["FEDTIER_DATA", "nowhere"]),
    ],
)
def test_impossible_requests_are_refused_before_any_work(fedtier, tmp_path, monkeypatch, words, said):
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path / "nowhere"))
    code, out, err = fedtier("reproduce", *words)
    assert code == 2 and out == "" and all(word in err for word in said), err
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_two_rounds_of_the_quick_table_on_the_real_rows(fedtier):
    words = ["--set", "run.rounds=2", "--only", "fedavg mnist", "--only", "fedtier mnist 0.1", "--store", "cells"]
    code, out, err = fedtier("reproduce", "table1", "--quick", *words, "--json")
    assert code == 0, err
    mean = {(cell["method"], cell["setting"]): cell["mean"] for cell in json.loads(out)["cells"]}
    assert mean["FedAvg", "mnist (1000, 90 %)"] > 80 and mean["FedAvg", "mnist (0.1, 10 %)"] < 60


def test_every_method_of_the_registry_stands_in_the_comparison_of_all_or_is_left_out_with_a_reason():
    for name in ("methods", "methods-hospitals"):
        content, left = all_methods.comparison_tables(name)
        assert {entry["name"] for entry in content["methods"]} | {*left} == {*METHODS} and all(left.values())
        assert len(content["methods"]) > 5


@pytest.mark.slow
@pytest.mark.checked
def test_the_comparison_of_all_methods_writes_a_table_and_a_picture(tmp_path, mnist):
    small = (*TINY, "data.name=mnist", "data.client_test_share=0.3", "model.hidden=4")
    order = Order("methods", quick=True, only=("server only",), store=tmp_path / "cells", out=tmp_path, settings=small)
    product = catalogue.make_result(order, Progress())
    assert {cell["method"] for cell in product.content["cells"]} == {"server only"}
    assert all(cell["tuned"].startswith("best of 16 points") for cell in product.content["cells"])
    assert sorted(Path(file).suffix for file in product.content["files"]) == [
        ".csv",
        ".json",
        ".md",
        ".pdf",
        ".png",
        ".svg",
        ".tex",
    ]
    assert all(Path(file).stat().st_size > 100 for file in product.content["files"])
