"""What predictions and refusals of rows look like, without a run."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fedtier.datasets.preparation import Label
from fedtier.datasets.table import Table
from fedtier.errors import FedtierError
from fedtier.experiments.bundle import rows, to_onnx
from fedtier.experiments.bundle.predictions import Predictions


def test_predictions_print_the_first_values_and_how_good_they_are():
    """Seen: the fields of the tuple, with every array in full."""
    classes = Label("outcome", ("ill", "well"))
    said = Predictions(classes, np.asarray(["ill", "well", "ill"]), None, np.asarray(["ill", "ill", "ill"]))
    assert repr(said) == "Predictions(outcome of 3 rows: ill, well, ill; accuracy 0.6667)"
    numbers = Predictions(Label("dose"), np.arange(9) / 3, None)
    assert repr(numbers) == "Predictions(dose of 9 rows: 0, 0.3333, 0.6667, 1, 1.333, ...)"


def test_a_missing_column_is_answered_with_one_that_the_model_does_not_have_already():
    """Seen: for mean_area, "did you mean 'mean_radius'?", which the rows had and the model knew."""
    needs = SimpleNamespace(scaling=None, needs=("mean_radius", "mean_area"), label=Label("outcome", ("ill", "well")))
    for given, hint in ((("mean_radius",), ""), (("mean_radius", "mean_aera"), "did you mean 'mean_aera'?")):
        with pytest.raises(FedtierError) as refused:
            rows._of_table(Table({name: np.zeros(2) for name in given}, 2), None, needs, rows.Reading())  # pyright: ignore[reportArgumentType]
        assert refused.value.value == "mean_area" and refused.value.hint == hint


def test_a_missing_package_is_told_of_the_option_that_needs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(FedtierError, match=r"--to = 'onnx': needs the package onnx"):
        to_onnx._onnx()
