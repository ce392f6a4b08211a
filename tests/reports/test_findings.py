"""What a comparison found, in words: from made-up scores whose intervals are known in closed form."""

import json
import math
from pathlib import Path

import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments.comparison import Cell, Comparison
from fedtier.experiments.outcomes import Outcome
from fedtier.reports import findings, layout, page_tables, tables
from fedtier.reports.layout import Grid
from fedtier.reports.load_runs import Curve

FIXED = configuration.load_config(None, ["data.test_seed=0"])  # all seeds have the same test rows: Student's t
DRAWN = configuration.load_config(None, [])


def made_up(scores: dict, metrics=("global",), baseline="a", config=FIXED) -> Outcome:
    """By method, or by (method, setting): an accuracy for each seed; the loss is 1 minus it."""
    scores = {key if isinstance(key, tuple) else (key, ""): values for key, values in scores.items()}
    finals = {
        key: [{"seed": s, "global_accuracy": a, "global_loss": 1 - a} for s, a in enumerate(values)]
        for key, values in scores.items()
    }
    cells = [Cell(method, setting, config, Path(method)) for method, setting in finals]
    return Outcome(Comparison(cells, baseline, metrics), finals)


CERTAIN = {"a": [0.50, 0.52, 0.54], "b": [0.70, 0.72, 0.75], "c": [0.60, 0.62, 0.63]}
# b - c: 10, 10, 12 points, mean 10.667, s = 1.1547, half = 4.302653 * 1.1547 / sqrt(3) = 2.868


def test_the_best_is_told_against_the_strongest_other_and_not_the_weakest():
    assert findings.sentence(made_up(CERTAIN)) == (
        "In global accuracy b is certainly best (72.3 %, 10.7 ± 2.9 points above c)."
    )


def test_nothing_is_certain_where_the_interval_includes_0():
    # a - b: 2, -1, 2 points, mean 1, s = sqrt(3), half = 4.302653
    said = findings.sentence(made_up({"a": [0.52, 0.50, 0.54], "b": [0.50, 0.51, 0.52]}))
    assert said == "No method is certainly best in global accuracy (a 52.0 %, 1.0 ± 4.3 points above b)."


def test_a_method_is_certainly_best_only_if_it_is_certain_against_every_other():
    # the strongest other is certainly behind, a wilder one is not
    scores = {"best": [0.80, 0.81, 0.82], "steady": [0.75, 0.76, 0.77], "wild": [0.10, 0.95, 0.90]}
    (lead,) = findings.leads(made_up(scores))
    assert lead.other == "steady" and lead.margin == pytest.approx((5.0, 0.0), abs=1e-9) and lead.unsure == ("wild",)
    assert not lead.certain and "not certain against wild" in findings.sentence(made_up(scores))


def test_one_seed_leaves_nothing_certain_and_a_loss_is_better_below():
    said = findings.sentence(made_up({"a": [0.5], "b": [0.7]}))
    assert said == "b is ahead of a by 20.0 points in global accuracy: one seed, so nothing is certain."
    said = findings.sentence(made_up(CERTAIN, metrics=("loss",)))
    assert said == "In test loss b is certainly best (0.2767, 0.1067 ± 0.0287 below c)."


def test_of_a_regression_errors_are_told_and_neither_loss_nor_r2():
    finals = {
        (m, ""): [{"seed": s, "global_rmse": e + s / 10, "global_r2": 0.5, "global_loss": 1.0} for s in range(3)]
        for m, e in (("a", 12.0), ("b", 10.0))
    }
    finals["b", ""][2]["global_rmse"] = 11.2  # a - b: 2, 2, 1: mean 5/3, s = 0.57735, half = 4.302653 * 0.57735 / sqrt(3)
    outcome = made_up(CERTAIN, metrics=("rmse", "r2", "loss"))._replace(finals=finals)
    assert findings.sentence(outcome) == "In the global model's error b is certainly best (10.43, 1.67 ± 1.43 below a)."
    assert findings.lower_is_better("rmse") and not findings.lower_is_better("r2") and findings.lower_is_better("worst_rmse")


def test_equal_means_are_a_tie_all_marked_best_and_told_as_level():
    """Seen: one star for one of two equal values, and "0.0 ± 0.0 points above" the other."""
    equal = {"a": [0.5, 0.6, 0.7], "b": [0.5, 0.6, 0.7], "c": [0.1, 0.2, 0.3]}
    said = findings.sentence(made_up(equal))
    assert said == "No method is certainly best in global accuracy (a 60.0 %, level with b)."
    assert [line.marks["global"] for line in tables.lines(made_up(equal))] == ["★", "★", ""]
    said = findings.sentence(made_up({name: values[:1] for name, values in equal.items()}))
    assert said == "a is level with b in global accuracy: one seed, so nothing is certain."
    settings = {(m, s): v for s in ("x", "y") for m, v in equal.items()} | {("c", "y"): [0.7, 0.8, 0.9]}
    said = findings.sentence(made_up(settings))
    assert said == "Of 2 settings: in global accuracy a and b are level in 1 and c leads in 1 (certainly in 1)."


def test_terminal_and_page_tell_the_same_mean_over_clients_by_its_name():
    """Seen: the mean over clients in the one and that by rows in the other, both called personal accuracy."""
    outcome = made_up(CERTAIN, metrics=("personal",))
    finals = {
        key: [row | {"personal_accuracy": {"mean": 0.5, "by_rows": row["global_accuracy"]}} for row in rows]
        for key, rows in outcome.finals.items()
    }
    terminal = outcome._replace(finals=finals)
    page = terminal._replace(comparison=outcome.comparison._replace(metrics=("personal", "personal_by_rows")))
    assert findings.sentence(terminal) == findings.sentence(page)
    assert findings.sentence(page).startswith("In personal accuracy, by rows, b is certainly best (72.3 %,")
    once = {k: [row | {"personal_accuracy": {"mean": row["global_accuracy"]}} for row in rows] for k, rows in finals.items()}
    said = findings.sentence(terminal._replace(finals=once))  # between sites nobody knows how many rows a client holds
    assert said.startswith("In personal accuracy, mean over clients, b is")


def test_over_several_settings_leads_are_counted():
    scores = {(m, s): v for s in ("x", "y") for m, v in CERTAIN.items()} | {("a", "y"): [0.8, 0.9, 0.7]}
    said = findings.sentence(made_up(scores))
    assert said == "Of 2 settings: in global accuracy b leads in 1 (certainly in 1) and a leads in 1 (certainly in none)."


def test_the_caption_says_which_interval_it_is():
    fixed, drawn = (findings.how_intervals(made_up(CERTAIN, config=config)) for config in (FIXED, DRAWN))
    assert "Student's t; all seeds are judged on the same rows" in fixed and "Nadeau" not in fixed
    assert "over 3 seeds" in drawn and "(1/n + n_test/n_train), Nadeau and Bengio 2003" in drawn
    both = findings.how_intervals(made_up(CERTAIN, metrics=("global", "personal")))
    assert "of personal % corrected" in both and "of the others plain" in both
    assert findings.how_intervals(made_up({"a": [0.5], "b": [0.6]})) == "values of one seed, hence no intervals"


def test_best_and_level_values_and_certain_differences_have_marks():
    level = CERTAIN | {"d": [0.60, 0.80, 0.70]}
    found = {line.method: line for line in tables.lines(made_up(level, metrics=("global", "loss")))}
    assert {m: line.marks["global"] for m, line in found.items()} == {"a": "", "b": "★", "c": "", "d": "≈"}
    assert {m: line.verdicts.get("global") for m, line in found.items()} == {"a": None, "b": "▲", "c": "▲", "d": ""}
    assert {m: line.marks["loss"] for m, line in found.items()} == {"a": "", "b": "★", "c": "", "d": "≈"}
    assert found["b"].verdicts["loss"] == "▲"  # a loss that is certainly lower is better
    worse = {line.method: line for line in tables.lines(made_up(CERTAIN, baseline="b"))}
    assert worse["a"].verdicts["global"] == "▼" == worse["c"].verdicts["global"]


def test_marks_are_words_too_on_a_page():
    html = page_tables.results(made_up(CERTAIN))
    assert html.count('aria-label="best mean"') == 1 and html.count('aria-label="certainly better"') == 2
    assert html.count('class="full"') == 2 and 'class="hollow"' not in html
    assert html.count('class="hollow"') == 0 and "Difference to a, paired by seed" in html
    unsure = page_tables.results(made_up({"a": [0.52, 0.50, 0.54], "b": [0.50, 0.51, 0.52]}))
    assert unsure.count('class="hollow"') == 1 and "certainly" not in unsure.split('<p class="note">')[0].replace(
        "not certainly", ""
    )


def test_how_settings_were_found_stands_below_a_table():
    outcome = made_up(CERTAIN)
    cells = [cell._replace(tuned="best of 9 points <b>" if cell.method == "b" else "") for cell in outcome.comparison.cells]
    tuned = outcome._replace(comparison=outcome.comparison._replace(cells=cells))
    assert "<li>b: best of 9 points &lt;b&gt;</li>" in page_tables.results(tuned)
    assert "How settings were found" not in page_tables.results(outcome)


def test_a_number_has_as_many_decimals_as_its_size_leaves_and_a_wide_table_is_cut_into_narrow_ones():
    shown = [tables.show(tables.Interval(mean, 0.5), "loss") for mean in (0.25, 51.25, 1234.5, 123456.0)]
    assert shown == ["0.2500 ± 0.5000", "51.250 ± 0.500", "1234.5 ± 0.5", "123456 ± 0"]
    wide = Grid(["method", *"abcdef"], [["m" * 40, *["9" * 14] * 6]], 1)
    parts = layout.narrow(wide)
    assert [part.headings for part in parts] == [["method", *"abc"], ["method", *"def"]]
    assert all(part.rows[0][0] == "m" * 40 for part in parts)


def test_a_table_is_strict_json_even_with_nothing_measured():
    content = tables.as_object(made_up({"a": [math.nan, math.nan], "b": []}))
    text = json.dumps(content, allow_nan=False)
    assert json.loads(text)["cells"][0]["metrics"]["global"]["mean"] is None
    assert "-0.00" not in tables.show(tables.Interval(-0.001, 1.0), "global", plus="+")


def judged_at(scores: dict[int, list[float]], losses: dict[int, float], errors=False) -> Curve:
    """A run of 100 rounds whose seeds had these scores after these rounds."""
    name = "global_rmse" if errors else "global_accuracy"
    rows = [
        {"seed": s, "round": r, name: a, "global_loss": losses[r]} for r, found in scores.items() for s, a in enumerate(found)
    ]
    config = configuration.load_config(None, ["run.rounds=100"])
    return Curve("a", "", "zo_hfl", config, Path("runs/a"), rows, [], finished=True, counts=None, errors=errors)


def test_a_model_that_was_clearly_better_before_is_told_and_one_that_wavers_is_not():
    scores = {0: [0.1, 0.1], 40: [0.70, 0.72], 100: [0.68, 0.70]}
    late = findings.past_best(judged_at(scores, {0: 2.3, 40: 0.9, 100: 1.2}))
    assert late is not None and (late.round, late.how) == (40, "71.0 %, 2.0 points above the last")
    assert late.search == "fedtier search runs/a/config.toml --set data.validation_share=0.1 --over run.rounds=20,40,100"
    assert findings.past_best(judged_at(scores, {0: 2.3, 40: 0.9, 100: 0.92})) is None, "the loss is what it was"
    close = scores | {100: [0.70, 0.71]}
    assert findings.past_best(judged_at(close, {0: 2.3, 40: 0.9, 100: 1.2})) is None, "half a point is no fall"
    errors = judged_at({0: [2.0], 40: [1.0], 100: [1.2]}, {0: 1.0, 40: 1.0, 100: 1.0}, errors=True)
    late = findings.past_best(errors)
    assert late is not None and late.how == "rmse 1, 1.2 at the end"
    assert findings.past_best(judged_at({0: [2.0], 100: [1.2]}, {0: 1.0, 100: 1.0}, errors=True)) is None
    assert findings.past_best(judged_at({0: [0.1], 40: [0.7]}, {0: 2.3, 40: 0.9})) is None, "not finished"
    assert findings.past_best(judged_at({0: [math.nan], 100: [math.nan]}, {0: math.nan, 100: math.nan})) is None, (
        "no global model"
    )


def test_no_command_is_given_for_rows_that_no_command_has(tmp_path):
    """Those of sites, and those that a Python program holds."""
    curve = judged_at({0: [0.1], 40: [0.7], 100: [0.6]}, {0: 2.3, 40: 0.9, 100: 1.2})._replace(folder=tmp_path)
    assert findings.past_best(curve).search
    data = curve.config.data.model_copy(update={"name": "python:arrays"})
    assert findings.past_best(curve._replace(config=curve.config.model_copy(update={"data": data}))).search == ""
    (tmp_path / "wire.json").write_text("{}")
    assert findings.past_best(curve).search == ""


def test_a_model_that_was_best_before_training_gets_no_advice_on_rounds():
    late = findings.past_best(judged_at({0: [0.3], 40: [0.2], 100: [0.1]}, {0: 2.0, 40: 3.0, 100: 4.0}))
    assert late is not None and late.round == 0 and not late.search and "smaller steps" in late.advice
