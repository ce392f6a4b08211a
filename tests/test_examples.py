"""The examples do what they say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from fedtier.methods import exact, orthogonal

FOLDER = Path(__file__).parent.parent / "examples"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_closed_program_at_the_sites_is_optimised_through_its_values_alone():
    reached, best = example("black_box").main()
    assert reached <= 1.01 * best


def test_where_a_constraint_is_active_values_find_the_minimum_and_the_exact_formula_does_not():
    run = example("active_constraint").run
    np.testing.assert_allclose(run(orthogonal(smoothing=0.05)), -1.0, atol=0.05)
    assert np.abs(run(exact()) + 1.0).max() > 0.4


@pytest.mark.parametrize("name", ["black_box", "active_constraint"])
def test_the_docstring_names_the_command_that_runs_it(name):
    assert f"python examples/{name}.py" in (example(name).__doc__ or "")
