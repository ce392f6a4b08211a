"""What a configuration gets that says little: presets, and a key that changes itself and nothing else."""

import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.config import load_config
from fedtier.methods import METHODS, registry


def method(*settings: str) -> dict:
    table = load_config(None, settings).method
    return table.model_dump() | table.options


@pytest.mark.parametrize("name", registry.METHODS)
def test_the_recommended_preset_is_the_default_and_the_papers_is_one_key_away(name):
    found, published = method(f"method.name={name}"), method(f"method.name={name}", "method.preset=paper")
    assert {key: found[key] for key in METHODS[name].recommended} == METHODS[name].recommended
    declared = {key: option.default for key, option in registry.options(name).items() if key != "proximity"}
    assert {key: published[key] for key in declared} == declared


@pytest.mark.parametrize("preset", registry.PRESETS)
@pytest.mark.parametrize(
    "setting", ["estimator=guided", "penalty=2", "server_step=sgd", "server_lr=0.5", "client_lr=0.5", "averaging=1"]
)
def test_a_key_changes_itself_and_nothing_else(preset, setting):
    before, after = method(f"method.preset={preset}"), method(f"method.preset={preset}", f"method.{setting}")
    assert {key for key in before if before[key] != after[key]} <= {setting.partition("=")[0]}


def test_a_key_that_does_not_fit_a_recommended_one_is_refused_with_where_that_comes_from(monkeypatch):
    monkeypatch.setitem(METHODS["zo_hfl"].recommended, "mix", 0.5)  # no recommended key excludes another today
    with pytest.raises(FedtierError, match=r"method.mix = 0.5(.|\n)*it comes from method.preset = 'recommended'"):
        load_config(None, ["method.estimator=sphere"])
    with pytest.raises(FedtierError, match=r"method.preset(.|\n)*recommended"):
        load_config(None, ["method.preset=papers"])


def test_a_number_is_a_constant_step_in_every_method():
    from fedtier.schedules import as_schedule

    for key in ("client_lr", "server_lr", "fine_tune"):
        assert [float(as_schedule(key, 0.5)(t)) for t in (0, 1, 9)] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("name", "seat"), [("fedavg", True), ("scaffold", True), ("ditto", True), ("zo_hfl", False)])
def test_the_servers_rows_have_a_seat_wherever_a_method_can_give_one(name, seat):
    assert load_config(None, [f"method.name={name}"]).method.server_seat is seat
    assert load_config(None, [f"method.name={name}", "method.server_seat=false"]).method.server_seat is False


def test_a_key_of_an_earlier_version_is_refused_with_its_new_name():
    with pytest.raises(FedtierError, match=r"method\.cohort = 'latest': is no key(.|\n)*it is called method\.remembered now"):
        load_config(None, ["method.name=zo_hfl", "method.cohort=latest"])


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (["method.penalty=-1"], "the default is 30.0"),
        (["method.penalty=-1", "method.preset=paper"], "the default is 1.0"),
        (["method.name=fedprox", "method.proximity=-1"], "the default is 0.1"),
        (["model.name=ResNet18"], "did you mean 'residual'?"),
        (["model.name=lenett"], "did you mean 'lenet'?"),
        (["run.personal_scales=0.1"], r"personal_scales = \[0.1\]"),
        (["method.fine_tune=-0.1"], "inverse"),
    ],
)
def test_the_hint_of_a_refusal_is_what_this_configuration_would_have_or_means(settings, hint):
    with pytest.raises(FedtierError, match=hint):
        load_config(None, settings)
