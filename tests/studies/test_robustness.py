"""The study of robustness: which cells it has, and how its table is made from their rows."""

from importlib import resources

from fedtier.experiments import config as configuration
from fedtier.experiments.outcomes import Outcome
from fedtier.studies.robustness import picture
from fedtier.studies.robustness.reproduce import grid, how_run
from fedtier.studies.study import Order, comparison_for


def comparison(tmp_path, quick=False):
    with resources.as_file(resources.files("fedtier.studies.robustness") / "robustness.toml") as file:
        return comparison_for(Order("robustness", quick=quick, store=tmp_path), configuration.read_toml(file))


def rows(*accuracies):
    return [{"seed": seed, "global_accuracy": accuracy} for seed, accuracy in enumerate(accuracies)]


def test_every_method_meets_every_attack_of_one_client_in_five_and_the_rule_is_on_and_off(tmp_path):
    cells = comparison(tmp_path).cells
    methods, settings = ({getattr(cell, what) for cell in cells} for what in ("method", "setting"))
    assert len(cells) == len(methods) * len(settings) and {"FedAvg", "RFA", "Trimmed mean", "ZO-HFL"} <= methods
    assert {cell.config.attack.kind for cell in cells} == {"none", "labels", "signs", "noise", "large"}
    assert {cell.config.attack.share for cell in cells} == {0.2} and {cell.config.run.seeds for cell in cells} == {3}
    assert {cell.config.run.magnitude for cell in cells if cell.config.attack.scale == 1e6} == {1e4, 1e30}
    assert len({cell.config.digest() for cell in cells}) == len(cells)
    assert 2 < len(comparison(tmp_path, quick=True).cells) < 10


def test_the_table_has_a_row_a_method_and_says_where_seeds_diverged(tmp_path):
    wanted = comparison(tmp_path)
    cells = [cell for cell in wanted.cells if cell.method in ("FedAvg", "RFA") and cell.setting in ("no attack", "labels")]
    finals = dict(
        zip(
            [(cell.method, cell.setting) for cell in cells],
            (rows(0.9, 0.9, 0.9), rows(0.8, 0.8, 0.8), [], rows(0.5)),
            strict=True,
        )
    )
    outcome = Outcome(wanted._replace(cells=cells), finals)
    table = grid(outcome)
    assert table.headings == ["method", "no attack", "labels"]
    assert table.rows == [["FedAvg", "90.0 ± 0.0", "diverged"], ["RFA", "80.0 ± 0.0", "50.0 (1 of 3 seeds)"]]
    assert how_run(outcome) == "digits, 10 clients, Dirichlet(1), 20 % attack, 60 rounds, 3 seeds"
    assert len(picture.draw(outcome).axes) == 2
