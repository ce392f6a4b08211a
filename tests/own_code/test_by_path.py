"""The user's own code by path: in every command, with options from its signature, and with refusals that show the line."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.origin import code_of
from fedtier.own_code import naming

from ..small_runs import metrics, options

MINE = '''
import numpy as np

from fedtier.methods import server_only, descent, zo_hfl
from fedtier.problem import softmax, supervised


def method(problem, *, rate: float = 0.1, steps=2):
    """The server alone, of mine."""
    return server_only(problem, server=descent(rate, steps=steps))


def problem(loss, *, pull=2.0):
    return supervised(loss, penalty=1.0, proximity=pull)


def make(features, classes, *, intercept=True):
    return softmax(features, classes, bias=intercept)


def load(*, rows=120, tilt=1.0):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((rows, 3))
    return inputs, (inputs[:, 0] + tilt * inputs[:, 1] > 0).astype(int)


NUMBER = 3


def hungry(problem, something):
    return None


def rest(problem, **options):
    return None


def broken(problem):
    values = {}
    return values["nothing"]


def late(problem):
    def aggregate(*arguments):
        raise RuntimeError("in the middle of a round")

    return server_only(problem)._replace(aggregate=aggregate)


def wrong(problem):
    return 3
'''
DATA = ["data.name=mine.py:load", "data.rows=90", "data.clients=3", "data.partition=iid"]
RUN = ["run.rounds=2", "run.eval_every=2", "run.tau=1"]
ALL = [*DATA, *RUN, "method.name=mine.py:method", "method.rate=0.2", "model.name=mine.py:make", "model.intercept=false"]


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.slow
def test_a_run_of_own_code_is_the_run_of_ours_that_it_wraps(mine, fedtier):
    code, out, err = fedtier("run", *options(ALL), "--out", "own", "--json")
    assert code == 0, err
    built_in = ["method.name=server_only", "method.server_lr=0.2", "method.server_steps=2", "method.server_batch=128"]
    built_in += ["method.server_step=sgd", "method.averaging=0", "method.fine_tune=0", "model.bias=false"]
    code, _, err = fedtier("run", *options([*DATA, *RUN, *built_in]), "--out", "ours")
    assert code == 0, err
    assert metrics(mine / "own") == metrics(mine / "ours")
    assert json.loads(out)["final"][0]["round"] == 2
    code, out, err = fedtier("report", "own", "--out", "report.html", "--json")
    assert code == 0 and (mine / "report.html").exists(), err
    code, _, err = fedtier("resume", "own")
    assert code == 0, err
    np.savez("new.npz", inputs=np.zeros((2, 3)))
    code, out, err = fedtier("predict", "own", "new.npz")
    assert code == 0 and len(out.splitlines()) == 3, err


@pytest.mark.slow
@pytest.mark.checked
def test_compare_and_search_and_theory_take_own_code_too(mine, fedtier):
    text = '[[methods]]\nlabel = "mine"\nname = "mine.py:method"\nrate = 0.3\n[[methods]]\nname = "server_only"\n'
    Path("compare.toml").write_text(text)
    code, out, err = fedtier("compare", "compare.toml", *options([*DATA, *RUN]), "--json")
    assert code == 0 and [cell["method"] for cell in json.loads(out)["cells"]] == ["mine", "server_only"], err
    code, out, err = fedtier("search", *options([*ALL[:-3], "method.rate=0.2"]), "--over", "method.steps=1,2", "--json")
    assert code == 0 and {point["options"]["method.steps"] for point in json.loads(out)["points"]} == {1, 2}, err
    code, out, err = fedtier("theory", *options([*DATA, *RUN, "method.problem=mine.py:problem", "method.pull=1.0"]))
    assert code == 0 and "mine.py" not in err, err


def test_files_are_looked_for_beside_the_configuration_that_names_them(mine, monkeypatch):
    (mine / "run.toml").write_text('[method]\nname = "mine.py:method"\nrate = 0.5\n')
    monkeypatch.chdir("/")
    method = configuration.load_config(mine / "run.toml").method
    assert method.name == f"{mine}/mine.py:method" and method.options == {"rate": 0.5, "steps": 2}
    assert naming.short(method.name) == "method"


def test_defaults_come_from_the_signature_and_a_changed_file_is_another_version(mine):
    config = configuration.load_config(settings=["method.name=mine.py:method", "model.name=mine.py:make"])
    assert config.method.options == {"rate": 0.1, "steps": 2} and config.model.model_extra == {"intercept": True}
    before = code_of(config)
    Path("mine.py").write_text(MINE.replace("rate: float = 0.1", "rate: float = 0.4"))
    assert code_of(config) != before
    assert configuration.load_config(settings=["method.name=mine.py:method"]).method.options["rate"] == 0.4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["method.name=nowhere.py:method"], ["nowhere.py", "is not there"]),
        (["method.name=mine.py:methd"], ["has no 'methd'", "did you mean 'method'?"]),
        (["method.name=mine.py:NUMBER"], ["is a int, not a function"]),
        (["method.name=mine.py:hungry"], ["asks for problem, something"]),
        (["method.name=mine.py:rest"], ["must name its options"]),
        (["method.name=mine.py:broken"], ["KeyError: 'nothing'", "mine.py, line", 'return values["nothing"]']),
        (["method.name=mine.py:wrong"], ["must return a Method, not a int"]),
        (["method.name=mine.py:method", "method.rat=1"], ["method.rat", "did you mean 'rate'?"]),
        (["method.name=mine.py:method", "method.rate=fast"], ["method.rate", "must be a number"]),
        (["model.name=mine.py:make", "model.intercpt=false"], ["model.intercpt", "did you mean 'intercept'?"]),
        (["model.name=mine.py:method"], ["model.name", "asks for problem"]),
        (["data.name=mine.py:load", "data.tild=2"], ["data.tild", "did you mean 'tilt'?"]),
        (["method.problem=mine.py:hungry"], ["method.problem", "the loss alone"]),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(mine, fedtier, settings, words):
    code, out, err = fedtier("run", *options(settings))
    assert (code, out) == (2, "") and all(word in err for word in words), err
    assert {path.name for path in mine.iterdir()} == {"mine.py"}


def test_an_exception_in_the_middle_of_a_run_shows_the_user_s_own_line(mine, fedtier):
    code, _, err = fedtier("run", *options([*DATA, *RUN, "method.name=mine.py:late"]))
    assert code == 2 and 'raise RuntimeError("in the middle of a round")' in err and "mine.py, line" in err, err


def test_an_object_of_a_program_is_refused_by_a_file_that_names_it():
    with pytest.raises(FedtierError, match="object of a Python program"):
        configuration.load_config(settings=["method.name=python:momentum"])
