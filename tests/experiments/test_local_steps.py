"""run.local_steps: the same number of local steps in every round."""

import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import comparison
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.studies.theory.read import read_setting

RUN = {"rounds": 3, "local_steps": 7, "participation": 1.0}


def config_of(**run):
    return configuration.validate({"data": {"clients": 3, "alpha": 100.0}, "run": RUN | run})


@pytest.fixture(scope="module")
def experiment():
    return assemble(config_of(tau=50.0))


def test_local_steps_stand_in_place_of_tau_in_the_plan_and_for_personal_models(experiment):
    assert (experiment.plan.steps == 7).all() and experiment.plan.steps.shape == (1, 3, 3)
    assert (experiment.steps == 7).all() and experiment.steps.shape == (4, 3)


def test_the_theory_refuses_them(experiment):
    with pytest.raises(FedtierError, match=r"run\.local_steps"):
        read_setting(experiment)


def test_the_fair_rule_gives_a_method_of_one_solve_twice_as_many(tmp_path):
    plan = comparison.make_comparison({"methods": [{"name": "zo_hfl"}, {"name": "fedavg"}], "run": RUN}, tmp_path)
    assert [cell.config.run.local_steps for cell in plan.cells] == [7, 14]


def test_runs_of_other_numbers_of_local_steps_are_other_runs():
    assert len({config_of(local_steps=steps).digest() for steps in (None, 7, 8)}) == 3


def test_no_local_step_at_all_is_refused():
    with pytest.raises(FedtierError, match=r"run\.local_steps"):
        config_of(local_steps=0)
