"""A search runs its grid at once, never sees the test rows, and agrees with single runs."""

from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import search
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

TEXT = """
[method]
name = "server_only"
preset = "paper"
[run]
rounds = 5
seeds = 2
[search]
server_lr = [0.01, 1.0]
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "search.toml"
    path.write_text(TEXT)
    return path


def test_every_point_equals_the_run_with_its_options_and_the_best_stands_first(file, tmp_path):
    config, grid = search.load_search(file)
    found = search.run_search(config, grid)
    assert [point.options["server_lr"] for point in found.points] == [1.0, 0.01]
    for point in found.points:
        same = ["method.name=server_only", "method.preset=paper", "run.rounds=5", "run.seeds=2", "data.validation_share=0.1"]
        single = configuration.load_config(None, [*same, f"method.server_lr=inverse_sqrt({point.options['server_lr']})"])
        result = run_experiment(single, tmp_path / f"run-{point.options['server_lr']}", progress=Progress())
        np.testing.assert_allclose(point.accuracy, [row["global_accuracy"] for row in result.final], atol=1e-6)


def test_validation_rows_come_from_the_server_and_the_test_rows_are_nobodys():
    from fedtier.experiments.assemble import assemble

    plain = assemble(configuration.load_config(None, ["run.rounds=1"])).federation
    held = assemble(configuration.load_config(None, ["run.rounds=1", "data.validation_share=0.25"])).federation
    assert int(held.test.start[0]) == int(plain.server.start[0])
    assert int(held.test.size[0] + held.server.size[0]) == int(plain.server.size[0])
    assert int(held.test.size[0]) == round(0.25 * int(plain.server.size[0]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("[search]\nserver_lr = []", "search.server_lr"), ("[search]\nserver_lr = [-1.0]", "search.server_lr"),
        ("[search]\nserver_lrr = [1.0]", "server_lr"), ("", "search"), ("[search]\nserver_rate = [1.0]", "method.server_rate"),
    ],
)  # fmt: skip
def test_an_impossible_grid_is_refused(tmp_path, change, name):
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.split("[search]", maxsplit=1)[0] + change)
    with pytest.raises(FedtierError, match=name):
        search.load_search(path)
