"""What a bundle's file says of a method's parts that a program gave as objects."""

import inspect
import json

import pytest

import fedtier as ft
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.bundle.parts import parts_told, with_parts


def from_file(choice):
    """The options of the method as another program makes them from what the files of `choice` say."""
    config = configuration.validate({"method": choice.table})
    tables = json.loads(json.dumps({"method": config.method.model_dump(exclude_none=True), "told": parts_told(config.method)}))
    return configuration.validate({"method": with_parts(tables["method"], tables["told"])}).method.options


def test_local_solvers_and_personal_rules_of_ours_are_made_again():
    local = ft.projected_sgd("inverse(0.2, 3)", batch=7, bounded=True, momentum=0.9, weight_decay=0.01)
    again = from_file(ft.zo_hfl(local=local, estimator=ft.sphere(), uplink="models", personal=ft.lower_level()))
    assert [again["local"].step(t) for t in range(4)] == [0.2 / (t + 3) for t in range(4)]
    assert again["local"][1:5] == (7, True, 0.9, 0.01) and again["personal"].name == "lower_level"
    tuned = from_file(ft.fedavg(personal=ft.fine_tune(0.3, batch=5)))["personal"]
    solver = inspect.getclosurevars(tuned.on).nonlocals["local"]
    assert tuned.name == "fine_tune" and solver[1:3] == (5, True) and [solver.step(t) for t in range(3)] == [0.3] * 3


def test_what_no_file_can_hold_is_refused_with_what_to_do():
    own = lambda t: 0.1 / (t + 1)  # noqa: E731
    for part in ({"local": ft.projected_sgd(own)}, {"personal": ft.fine_tune(own)}):
        with pytest.raises(FedtierError, match=r"(?s)no file holds.*result\.adapt\(\.\.\.\) in that program.*fine_tune=0\.1"):
            from_file(ft.zo_hfl(**part))
