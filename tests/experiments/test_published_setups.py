"""What the set-ups of published tables need: epochs, the publisher's test rows, scales of pixels, models as they are."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import comparison
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.data import load_raw
from fedtier.experiments.metrics import evaluator
from fedtier.experiments.tables import LATER
from fedtier.experiments.uncompiled import engine_of
from fedtier.studies.theory.read import read_setting

from ..datasets import layouts

DIGITS = {"server_share": 0.0, "clients": 4, "alpha": 0.5, "balance": True, "min_rows": 20, "test_share": 0.0}


def config_of(data=None, run=None, **method):
    tables = {"data": DIGITS | (data or {}), "model": {"name": "softmax"}, "method": {"name": "fedavg", "batch": 16} | method}
    return configuration.validate(
        tables | {"run": {"rounds": 2, "seeds": 2, "participation": 1.0, "epochs": 1.5} | (run or {})}
    )


@pytest.fixture(scope="module")
def experiment():
    return assemble(config_of())


def test_an_epoch_is_as_many_steps_as_a_client_has_minibatches(experiment):
    rows = np.asarray(experiment.federation.train.size)
    wanted = np.ceil(1.5 * np.ceil(rows / 16))
    np.testing.assert_array_equal(experiment.plan.steps, np.repeat(wanted[:, None], 2, axis=1))
    assert rows.min() >= 16 and not np.array_equal(*rows)  # seeds have other clients, whose steps differ


def test_no_row_judges_the_global_model_where_the_test_share_is_0(experiment):
    assert np.asarray(experiment.federation.test.size).tolist() == [0, 0]
    held, train = (np.asarray(getattr(experiment.federation, part).size) for part in ("held", "train"))
    assert (held + train).sum(axis=1).tolist() == [1797, 1797]


@pytest.mark.slow
def test_a_personal_model_is_measured_as_it_is_after_so_many_steps_as_are_said_or_after_an_epoch(experiment):
    """FedAvg's fine-tuned model after 0 steps is the global one; after an epoch of its client's rows it is not."""

    def scores(run):
        made = assemble(config_of(run=run, fine_tune=0.1))
        engine = engine_of(made, 1)
        return evaluator(made, engine)(engine.init(made.x, made.federation), 0)

    still, moved = scores({"personal_steps": 0}), scores({})
    np.testing.assert_array_equal(still.personal.accuracy, still.shared.accuracy)
    assert np.all(np.asarray(moved.personal.accuracy) > np.asarray(moved.shared.accuracy))


def test_epochs_are_refused_beside_local_steps_and_by_the_theory(experiment):
    with pytest.raises(FedtierError, match=r"run\.epochs"):
        config_of(run={"local_steps": 3})
    with pytest.raises(FedtierError, match=r"run\.epochs"):
        read_setting(experiment)


def test_the_fair_rule_makes_epochs_longer_too(tmp_path):
    run = {"run": {"epochs": 3.0}, "methods": [{"name": "zo_hfl"}, {"name": "fedavg"}]}
    assert [cell.config.run.epochs for cell in comparison.make_comparison(run, tmp_path).cells] == [3.0, 6.0]


def test_keys_that_are_not_set_leave_a_run_its_name():
    keys = [("data", "balance", True), ("data", "pixels", "unit"), ("run", "epochs", 2.0), ("run", "personal_steps", 0)]
    names = {configuration.validate({table: {key: value}}).digest() for table, key, value in keys}
    assert len({*names, configuration.validate({}).digest()}) == 5
    assert {(table, key) for table, key, _ in keys} | {("data", "test")} <= set(LATER)


@pytest.fixture
def mnist(tmp_path):
    layouts.write_idx(tmp_path)
    return {"name": "mnist", "folder": str(tmp_path), "clients": 2, "partition": "iid"}


def config_of_mnist(mnist, **more):
    tables = {"data": mnist | {"server_share": 0.0} | more, "model": {"name": "softmax"}, "method": {"name": "fedavg"}}
    return configuration.validate(tables)


def test_the_publishers_test_rows_judge_and_nobody_trains_on_them(mnist):
    made = assemble(config_of_mnist(mnist, test="published", client_test_share=0.0))
    index, size = np.asarray(made.federation.index)[0], int(made.federation.test.size[0])
    assert size == 10 and sorted(index[:size]) == [*range(30, 40)] and sorted(index[size:]) == [*range(30)]


@pytest.mark.parametrize(("pixels", "least", "most"), [("unit", 0.0, 1.0), ("signed", -1.0, 1.0)])
def test_pixels_are_seen_on_the_scale_that_is_named(mnist, pixels, least, most):
    dataset = load_raw(config_of_mnist(mnist, pixels=pixels))
    ends = (np.asarray([0, 255]) - dataset.shift) * dataset.scale
    np.testing.assert_allclose(ends, [least, most], atol=1e-6)


def test_scales_and_test_rows_that_a_set_does_not_have_are_refused(mnist):
    with pytest.raises(FedtierError, match=r"data\.pixels"):
        load_raw(configuration.validate({"data": {"pixels": "unit"}}))
    with pytest.raises(FedtierError, match="no test set of its own"):
        load_raw(configuration.validate({"data": {"test": "published"}}))
    with pytest.raises(FedtierError, match=r"data\.test_share"):
        config_of_mnist(mnist, test="published", test_share=0.2)
    with pytest.raises(FedtierError, match=r"data\.balance"):
        config_of_mnist(mnist, balance=True)
