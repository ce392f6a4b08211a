"""The study of asynchrony: when a run was first at an accuracy."""

from pathlib import Path

from fedtier.experiments.config import load_config
from fedtier.reports.load_runs import Curve, position
from fedtier.reports.style import ACROSS
from fedtier.studies.asynchrony.reproduce import time_to


def row(seed, number, seconds, accuracy):
    return {"round": number, "seed": seed, "virtual_seconds": seconds, "global_accuracy": accuracy}


def test_the_time_to_an_accuracy_is_that_of_the_first_evaluation_there_for_each_seed():
    rows = [row(0, 0, 0.0, 0.1), row(0, 2, 5.0, 0.9), row(0, 4, 9.0, 0.8), row(1, 0, 0.0, 0.2), row(1, 2, 7.0, 0.85)]
    curve = Curve("FedAvg", "tenfold", "fedavg", load_config(), Path(), rows, [], True, None)
    found = time_to(curve, 0.9)
    assert found.seconds == [5.0, None] and found.final == [0.8, 0.85] and found.whole == [9.0, 7.0]


def test_every_axis_of_a_report_finds_its_place_in_a_row():
    """Seen: runs with a clock had no page, because the axis of virtual time was not known."""
    line = row(0, 3, 12.5, 0.9) | {"bytes_up": 2, "bytes_down": 5, "local_steps": 7}
    found = {across.key: position(line, across.key) for across in ACROSS}
    assert found == {"round": 3.0, "bytes": 7.0, "local_steps": 7.0, "virtual_seconds": 12.5}
