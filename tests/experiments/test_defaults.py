"""What a configuration gets that says little."""

import pytest

from fedtier.experiments import config as configuration
from fedtier.methods.registry import options
from fedtier.methods.zo_hfl import RECOMMENDED


def method(*settings: str) -> dict:
    table = configuration.load_config(None, settings).method
    return table.model_dump() | table.options


@pytest.mark.parametrize("settings", [(), ("method.estimator=auto",), ("method.uplink=estimate",)])
def test_who_names_no_estimator_gets_the_recommended_settings(settings):
    found = method(*settings)
    assert {key: found[key] for key in RECOMMENDED} == RECOMMENDED


def test_what_is_given_wins_over_what_is_recommended():
    found = method("method.penalty=2", "method.server_step=sgd", "method.server_lr=0.5")
    assert (found["penalty"], found["server_step"], found["server_lr"], found["averaging"]) == (2.0, "sgd", 0.5, 3)


@pytest.mark.parametrize("settings", [("method.estimator=sphere",), ("method.uplink=values",), ("method.estimator=guided",)])
def test_naming_an_estimator_or_a_narrow_uplink_is_one_key_to_the_papers_constants(settings):
    found, given = method(*settings), {setting.partition("=")[0].removeprefix("method.") for setting in settings}
    declared = {key: option.default for key, option in options("zo_hfl").items() if key not in given}
    assert {key: found[key] for key in declared} == declared
    assert (found["penalty"], found["proximity"]) == (1.0, 0.1)
