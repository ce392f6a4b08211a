"""`fedtier methods`: facts that are measured, filters, 80 columns."""

import json
from contextlib import nullcontext

import pytest

from fedtier.methods.registry import METHODS
from fedtier.reports import method_list
from fedtier.reports.layout import plain
from fedtier.reports.method_list import NARROW, Facts, Size, Wish, chosen, facts_of, keys_table, list_table


@pytest.mark.parametrize(
    ("name", "state", "sends"),
    [
        ("fedavg", "nothing", "1 model"),
        ("scaffold", "1 model", "2 models"),  # c_i; y_i - x and c_i+ - c_i
        ("server_only", "nothing", "nothing"),
        ("local_only", "1 model", "nothing"),
        ("rfa", "nothing", "1 model"),
    ],
)
def test_state_and_reply_are_those_of_the_method(name, state, sends):
    facts = facts_of(name)
    assert (facts.state.words(), facts.sends.words()) == (state, sends)


def test_a_part_of_a_model_is_told_from_numbers_that_do_not_grow_with_it():
    """The head has 10 x 64 weights and 10 biases of 4,938 numbers: 64 x 64 + 64, 64 + 64 and 650."""
    head, model = 650, 64 * 64 + 64 + 128 + 650
    wide = 10 * 128 + 10
    assert Size.of(head, lambda: wide) == Size(head / model, 0)
    assert Size.of(200, lambda: 200) == Size(0, 200) and Size(0, 200).words() == "200 numbers"
    assert Size.of(2 * model + 3, lambda: 1 / 0) == Size(2, 3) and Size(2, 3).words() == "2 models + 3"
    assert sum(leaf.size for layer in NARROW for leaf in layer) == model
    facts = facts_of("fedper")
    assert facts.state == Size(head / model, 0) and facts.sends == Size((model - head) / model, 0)


def test_filters_leave_what_fits():
    assert list(chosen(Wish(family="robust"))) == ["rfa", "trimmed_mean", "coordinate_median"]
    assert list(chosen(Wish(family="reference", personal=True))) == ["local_only"]
    assert list(chosen(Wish(family="reference", no_server_data=True))) == ["local_only"]
    assert list(chosen(Wish(family="reference", wire=True))) == []
    assert list_table(Wish(family="reference", wire=True)) == ["no method has all of this"]
    assert list(chosen(Wish(names=("ditto",), personal=True))) == ["ditto"]
    assert not Wish(personal=True).fits(METHODS["fedavg"], Facts(Size(0, 0), Size(1, 0), False, True, personal=False))


def test_the_command_filters_shows_keys_and_refuses_unknown_words(fedtier):
    code, out, err = fedtier("methods", "--family", "robust")
    assert (code, err) == (0, "") and "trimmed_mean" in out and "scaffold" not in out
    code, out, err = fedtier("methods", "trimmed_mean")
    assert (code, err) == (0, "") and "trim = 0.2" in out and "client_lr = 0.1 (paper: inverse(0.1))" in " ".join(out.split())
    told = json.loads(fedtier("methods", "--family", "robust", "--json")[1])
    assert told["rfa"]["sends"] == {"models": 1.0, "numbers": 0} and told["rfa"]["paper"]["averaging"] == 0
    assert "did you mean 'robust'" in fedtier("methods", "--family", "robst")[2]
    assert "did you mean 'rfa'" in fedtier("methods", "rfaa")[2]


@pytest.mark.slow
def test_what_is_not_traced_changes_no_fact(monkeypatch):
    some = ("zo_hfl", "local_only", "ditto", "pfedme", "fedper", "mocha", "zoopfl", "codistil")
    short = {name: facts_of(name) for name in some}
    monkeypatch.setattr(method_list, "outlined", nullcontext)
    assert {name: facts_of(name) for name in some} == short


@pytest.mark.slow
def test_the_list_has_every_method_in_80_columns():
    """Every one is traced for its facts: the slow part of the command."""
    lines = plain(list_table(Wish())).splitlines()
    assert all(any(line.split()[:1] == [name] for line in lines) for name in METHODS)
    assert max(map(len, lines)) <= 80
    assert max(len(line) for line in plain(keys_table(Wish(family="averaging"))).splitlines()) <= 80


def test_methods_with_and_without_rounds_run_between_sites():
    assert all(facts_of(name).wire for name in ("fedbuff", "fedasync", "fedavg"))


def test_the_paper_s_penalty_and_proximity_stand_beside_ours():
    told = " ".join(plain(keys_table(Wish(names=("zo_hfl",)))).replace("│", " ").split())
    assert "penalty = 30.0 (paper: 1.0)" in told and "proximity = 10.0 (paper: 0.1)" in told
