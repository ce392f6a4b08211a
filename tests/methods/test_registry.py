"""A method is one row: nobody else knows its name, and its flat keys build the parts that its factory has by default."""

import ast
import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import fedtier
from fedtier import datasets
from fedtier.errors import FedtierError
from fedtier.methods import METHODS, Estimator, PersonalRule, ProjectedSgd, ServerDescent
from fedtier.methods.registry import names_with, options, sketch

SOURCE = Path(fedtier.__file__).parent
AT_HOME = ("methods", "datasets", "studies")  # studies are about particular methods


def told(part):
    """What a part does, as plain numbers."""
    if isinstance(part, ProjectedSgd):
        return [float(part.step(t)) for t in (0, 1, 7)], part[1:]
    if isinstance(part, ServerDescent):
        x = jnp.ones(3)
        updates = [part.optimiser.update(2 * x, part.optimiser.init(x), x, round=r)[0].tolist() for r in (0, 1, 7)]
        return updates, part.steps, part.batch, part.averaging, part.trust
    if isinstance(part, Estimator):
        return part.name, part.smoothing, part.directions, part.private, part.guides, part.served
    return part.name if isinstance(part, PersonalRule) else part


@pytest.mark.parametrize("name", METHODS)
def test_the_default_keys_of_a_configuration_are_the_default_parts_of_the_factory(name):
    row = METHODS[name]
    parameters = list(inspect.signature(row.factory).parameters.values())[1:]  # the first is the problem
    parts = {key: told(part) for key, part in row.flat().items()}
    assert parts.pop("averaging", 0) == 0  # of the models of a method without a descent: see `averaged`
    assert parts.pop("projection", 0) == 0  # of its replies: see `projected`
    defaults = {p.name: told(p.default) for p in parameters}
    assert defaults.pop("check", 0.0) == 0.0  # of run.personal_check, for every method that takes it
    assert defaults == parts


def test_every_row_has_a_title_of_its_own_and_a_reference_unless_it_is_one_itself():
    assert len({row.title for row in METHODS.values()}) == len(METHODS)
    assert all(("@" in row.reference) == (row.family != "reference") for row in METHODS.values())


def test_the_file_of_a_method_can_be_read_in_one_sitting():
    lines = {name: len(Path(inspect.getfile(row.factory)).read_text().splitlines()) for name, row in METHODS.items()}
    assert max(lines.values()) <= 120, {name: count for name, count in lines.items() if count > 120}


def test_no_other_file_compares_with_the_name_of_a_method_or_of_a_data_set():
    names = {*METHODS, *datasets.NAMES} - {"file"}  # which is also the name of a key

    def compared(file):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            for leaf in (leaf for part in parts for leaf in ast.walk(part)):
                if isinstance(leaf, ast.Constant) and leaf.value in names:
                    yield f"{file.relative_to(SOURCE)}:{leaf.lineno} {leaf.value}"

    files = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in AT_HOME]
    assert len(files) > 50
    assert [line for file in files for line in compared(file)] == []


def test_a_method_can_be_asked_before_there_is_a_problem():
    assert sketch("zo_hfl", {"directions": 3}).solves == 6
    assert "fedavg" in names_with("seat") and "zo_hfl" not in names_with("seat")
    assert "zo_hfl" in names_with("foreign") and "scaffold" not in names_with("foreign")
    assert names_with("buffer") == ["fedbuff", "fedasync"]


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(FedtierError, match="did you mean 'scaffold'"):
        options("scafold")


def test_a_traced_value_of_a_search_is_taken_as_it_is():
    def rate(c):
        return sketch("scaffold", {"server_rate": c, "client_lr": lambda t: c / (t + 1)}).solves + 0.0 * c

    assert float(jax.jit(rate)(0.5)) == 1.0
