"""A global model whose parts stay at the clients is not to be judged: wherever its accuracy stands, the table says so."""

from pathlib import Path

import pytest

from fedtier.experiments import config as configuration
from fedtier.experiments.comparison import Cell, Comparison
from fedtier.experiments.outcomes import Outcome
from fedtier.methods.registry import names_with
from fedtier.reports import tables


def note(metrics, *names):
    cells = [Cell(name, "", configuration.load_config(None, [f"method.name={name}"]), Path("none")) for name in names]
    finals = {(name, ""): [{"seed": 0, "global_accuracy": 0.5, "personal_accuracy": {"mean": 0.5}}] for name in names}
    return tables.note(Outcome(Comparison(cells, names[0], metrics), finals))


@pytest.mark.parametrize("name", names_with("partial"))
def test_the_note_names_who_keeps_parts_at_the_clients(name):
    assert f"{name}: {tables.UNTRAINED}" in note(("global", "personal"), "fedavg", name)
    assert tables.UNTRAINED not in note(("personal",), "fedavg", name)


def test_a_whole_global_model_has_no_such_note():
    assert {*names_with("partial")} == {"fedper", "fedrep", "fedbn", "lg_fedavg", "zoopfl"}
    assert tables.UNTRAINED not in note(("global", "personal"), "fedavg", "ditto")
