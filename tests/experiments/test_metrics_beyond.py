"""Metrics beyond accuracy: what they are, whose rows they judge, and who is worst."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

import fedtier as ft
from fedtier.datasets.preparation import Label
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.judges import JUDGES, Rows, judges_of
from fedtier.experiments.metrics import FEWEST, global_scores, quality
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.federation import View
from fedtier.problem import Rows as ModelRows
from fedtier.problem import cross_entropy, linear, softmax, supervised
from fedtier.reports.load_runs import load_runs
from fedtier.reports.page import page
from fedtier.reports.terminal import run_table
from fedtier.reports.tracking import scalars

from .bundle.conftest import SHORT, write_patients

TWO, THREE = Label("outcome", ("no", "yes")), Label("kind", ("a", "b", "c"))


def rows_of(label, truth, probabilities):
    probabilities = np.asarray(probabilities, float)
    return Rows(np.asarray(truth), probabilities.argmax(axis=1), probabilities, label)


def test_each_metric_is_what_its_definition_gives_by_hand():
    rows = rows_of(TWO, [0, 0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    said = {name: judge(rows) for name, judge in JUDGES.items() if judge.task == "classification"}
    assert said["accuracy"] == 0.75
    assert said["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert said["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert said["auc"] == pytest.approx(2 / 3)  # the one positive stands above two of three negatives
    assert said["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.6, 0.2, 0.7])))
    assert said["calibration_error"] == pytest.approx((0.1 + 0.4 + 0.8 + 0.3) / 4)  # one row in each bin
    numbers = Rows(np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 2.0, 5.0]), None, Label("age", ()))
    assert JUDGES["rmse"](numbers) == pytest.approx(np.sqrt(4 / 3))
    assert JUDGES["mae"](numbers) == pytest.approx(2 / 3) and JUDGES["r2"](numbers) == pytest.approx(1 - 4 / 2)


def test_a_metric_that_the_rows_do_not_define_is_no_number():
    alike = rows_of(THREE, [1, 1], [[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]])
    assert np.isnan(JUDGES["auc"](alike)) and JUDGES["log_loss"](alike) == pytest.approx(-np.mean(np.log([0.5, 0.8])))
    assert np.isnan(JUDGES["accuracy"](rows_of(THREE, [], np.zeros((0, 3)))))
    some = rows_of(THREE, [0, 1], [[0.5, 0.4, 0.1], [0.2, 0.7, 0.1]])  # no row of c: the mean over a and b
    assert JUDGES["auc"](some) == 1.0


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    home = tmp_path_factory.mktemp("judged")
    (home / "mine.py").write_text(
        "def missed(truth, predicted):\n"
        "    return ((truth == 'sick') & (predicted == 'well')).mean()\n"
        "missed.larger_is_better = False\n"
        "def sure(truth, predicted, probabilities):\n    return probabilities.max(axis=1).mean()\n"
    )
    words = ["accuracy", "log_loss", "auc", f"{home / 'mine.py'}:missed", f"{home / 'mine.py'}:sure"]
    table = write_patients(home / "patients.csv")
    settings = [f"data.file={table}", "data.label=outcome", "data.owner=town", "data.server_share=0.2", "method.name=fedavg"]
    config = configuration.load_config(None, [*settings, *SHORT, f"run.metrics={json.dumps(words)}", "run.seeds=2"])
    return run_experiment(config, home / "run", progress=Progress())


@pytest.mark.slow
def test_the_metrics_of_a_run_are_those_of_its_own_evaluation_where_both_have_them(judged):
    told = json.loads((judged.folder / "clients.json").read_text())
    for row, clients in zip(judged.final, told, strict=True):
        assert row["metrics"]["accuracy"]["global"] == pytest.approx(row["global_accuracy"], abs=1e-6)
        assert row["metrics"]["log_loss"]["global"] == pytest.approx(row["global_loss"], rel=1e-5)
        for key in ("mean", "by_rows", "min", "p10"):
            assert row["metrics"]["accuracy"]["personal"][key] == pytest.approx(row["personal_accuracy"][key], abs=1e-6)
            assert row["metrics"]["accuracy"]["global_on_clients"][key] == pytest.approx(
                row["global_on_clients"][key], abs=1e-6
            )
        np.testing.assert_allclose(clients["metrics"]["accuracy"]["personal"], clients["personal"], atol=1e-6)
        assert clients["names"] == ["bern", "chur", "zurich"]
        missed = np.asarray(clients["metrics"]["missed"]["personal"])
        assert ((missed >= 0) & (missed <= 1 - np.asarray(clients["personal"]) + 1e-6)).all()
        worst = row["metrics"]["missed"]["personal"]["max"]  # smaller is better
        assert worst == pytest.approx(missed[np.asarray(clients["held"]) >= FEWEST].max())
        assert 0.5 <= row["metrics"]["sure"]["global"] <= 1
    first = json.loads((judged.folder / "metrics.jsonl").read_text().splitlines()[0])
    assert first["round"] == 0 and "metrics" not in first


@pytest.mark.slow
def test_the_terminal_the_page_and_the_trackers_show_them(judged, tmp_path):
    tables = [part for part in run_table(judged) if not isinstance(part, str)]
    assert tables[1].title == "as run.metrics asks" and [*tables[1].columns[0].cells][-2:] == ["missed", "sure"]
    shown = page(load_runs([judged.folder]))
    assert "Further metrics" in shown and "each client: its personal model (the global one), seed 0" in shown
    logged = dict(scalars(judged.final[0]))
    assert logged["metrics/auc/global"] == judged.final[0]["metrics"]["auc"]["global"]


def test_unknown_metrics_and_those_of_another_task_are_refused_before_any_round(tmp_path):
    with pytest.raises(FedtierError, match="did you mean 'macro_f1'"):
        configuration.load_config(None, ['run.metrics=["macro_f"]'])
    with pytest.raises(FedtierError, match="is not there"):
        configuration.load_config(None, ['run.metrics=["nowhere.py:cost"]'])
    with pytest.raises(FedtierError, match="is for a regression, this is a classification"):
        judges_of(["r2"], "classification")
    config = configuration.load_config(None, ['run.metrics=["auc"]', "run.keep_personal=0", *SHORT])
    with pytest.raises(FedtierError, match=r"raise run\.keep_personal"):
        run_experiment(config, tmp_path / "run", progress=Progress())


def test_a_metric_of_ones_own_that_fails_is_told_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("def cost(truth, predicted):\n    return truth / 0\n")
    (judge,) = judges_of([f"{tmp_path / 'mine.py'}:cost"], "classification")
    with pytest.raises(FedtierError, match=r"mine\.py, line 2"):
        judge(rows_of(TWO, [0, 1], [[1.0, 0.0], [0.0, 1.0]]))


@pytest.mark.slow
def test_a_program_gives_a_metric_as_the_function_it_is(tmp_path):
    def wrong(truth, predicted):
        return (truth != predicted).mean()

    frame = {"x": np.arange(80.0) % 7, "y": np.where(np.arange(80) % 7 > 3, "high", "low"), "who": np.arange(80) % 2}
    data = ft.federate(frame, label="y", owner="who")
    result = ft.train(ft.fedavg(), data, rounds=2, metrics=["accuracy", wrong], folder=tmp_path / "run")
    told = result.run.final[0]["metrics"]
    assert told["wrong"]["global"] == pytest.approx(1 - told["accuracy"]["global"])


@pytest.mark.slow
def test_metrics_of_weighted_rows_are_scikit_learn_s_with_sample_weight():
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 3, 40).astype(np.int32)
    weights = (rng.random(40) * 5).astype(np.float32)
    model = softmax(3, 3)
    x = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape), jnp.float32), model.init(jax.random.key(0)))
    outputs = np.asarray(model.apply(x, inputs), np.float64)
    odds = np.exp(outputs)
    probabilities, predicted = odds / odds.sum(axis=1, keepdims=True), outputs.argmax(axis=1)
    some = np.arange(10, 35)  # weights of the judged rows alone count
    view = View(ModelRows(*map(jnp.asarray, (inputs, labels, weights))), jnp.arange(40), jnp.asarray(10), jnp.asarray(25))
    algorithm = SimpleNamespace(
        model=model, dataset=SimpleNamespace(task="classification"), problem=supervised(cross_entropy(model))
    )
    _, loss, found = global_scores(algorithm, x, view, view)  # pyright: ignore[reportArgumentType]
    told = {"sample_weight": weights[some]}
    expected = log_loss(labels[some], probabilities[some], labels=range(3), **told)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(found.accuracy) == pytest.approx(accuracy_score(labels[some], predicted[some], **told), rel=1e-5)
    rows = Rows(labels[some], predicted[some], probabilities[some], THREE, weights[some])
    assert JUDGES["log_loss"](rows) == pytest.approx(expected)
    assert JUDGES["macro_f1"](rows) == pytest.approx(f1_score(labels[some], predicted[some], average="macro", **told))
    thrice = np.repeat(np.arange(25), np.arange(25) % 3 + 1)  # a weight of 3 is the same row three times
    often, once = Rows(*(a[some][thrice] for a in (labels, predicted, probabilities)), THREE), np.arange(25) % 3 + 1.0
    for judge in JUDGES.values():
        if judge.task == "classification":
            assert judge(rows._replace(weights=once)) == pytest.approx(judge(often)), judge.name


@pytest.mark.slow
def test_errors_of_weighted_rows_are_scikit_learn_s_with_sample_weight():
    rng = np.random.default_rng(1)
    inputs, labels = rng.normal(size=(30, 2)).astype(np.float32), rng.normal(size=30).astype(np.float32)
    weights = (rng.random(30) * 4).astype(np.float32)
    model = linear(2)
    x = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape), jnp.float32), model.init(jax.random.key(0)))
    predicted = np.asarray(model.apply(x, inputs), np.float64)[:, 0]
    view = View(ModelRows(*map(jnp.asarray, (inputs, labels, weights))), jnp.arange(30), jnp.asarray(0), jnp.asarray(30))
    algorithm = SimpleNamespace(model=model, dataset=SimpleNamespace(task="regression"))
    found = quality(algorithm, x, view)  # pyright: ignore[reportArgumentType]
    rows = Rows(labels, predicted, None, Label("age", ()), weights)
    for name, of in (("rmse", root_mean_squared_error), ("mae", mean_absolute_error), ("r2", r2_score)):
        expected = of(labels, predicted, sample_weight=weights)
        assert float(getattr(found, name)) == pytest.approx(expected, rel=1e-4), name
        assert JUDGES[name](rows) == pytest.approx(expected)
