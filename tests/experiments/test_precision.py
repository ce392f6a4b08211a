"""model.precision = "half": who may have it, and that only steps do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.assemble import assemble
from fedtier.experiments.config import validate
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

SMALL = {
    "data": {"name": "digits", "clients": 4},
    "model": {"name": "mlp", "hidden": 16, "precision": "half"},
    "run": {"rounds": 20, "local_steps": 10, "eval_every": 20},
}


def with_method(**keys):
    return validate(SMALL | {"method": keys})


@pytest.mark.parametrize("name", ["zo_hfl", "decomfl", "fedrzo", "zoopfl"])
def test_methods_that_take_differences_are_refused_before_any_work(name):
    with pytest.raises(FedtierError, match="takes differences of values") as refused:
        with_method(name=name)
    assert refused.value.name == "model.precision" and "fedavg" in refused.value.hint


@pytest.mark.parametrize("keys", [{"name": "fedavg"}, {"name": "scaffold"}, {"name": "zo_hfl", "estimator": "first_order"}])
def test_methods_that_follow_slopes_may_have_it(keys):
    assert with_method(**keys).model.precision == "half"


def test_a_word_that_is_neither_is_refused():
    with pytest.raises(FedtierError, match=r"model\.precision"):
        validate({"model": {"precision": "double"}})


def test_runs_from_before_the_key_keep_their_name():
    assert validate({}).digest() == validate({"model": {"precision": "full"}}).digest() != with_method(name="fedavg").digest()


def test_steps_compute_in_half_and_scores_in_full():
    experiment = assemble(with_method(name="fedavg"))
    x = jax.tree.map(lambda a: a[0], experiment.x)
    rows = jax.tree.map(lambda a: jnp.asarray(a[:8]), experiment.federation.arrays)
    assert "bf16" in str(jax.make_jaxpr(experiment.problem.f1)(x, rows))
    assert experiment.model is not None
    assert "bf16" not in str(jax.make_jaxpr(experiment.model.apply)(x, rows.inputs))


@pytest.mark.slow
def test_a_net_learns_as_well_and_its_parameters_stay_full(tmp_path):
    half = run_experiment(with_method(name="fedavg"), tmp_path / "half", progress=Progress())
    full = run_experiment(
        validate(SMALL | {"model": {"name": "mlp", "hidden": 16}, "method": {"name": "fedavg"}}),
        tmp_path / "full",
        progress=Progress(),
    )
    ours, theirs = (result.final[0]["global_accuracy"] for result in (half, full))
    assert ours is not None and theirs is not None and theirs > 0.85 and abs(ours - theirs) < 0.05
    assert all(np.asarray(leaf).dtype != jnp.bfloat16 for leaf in jax.tree.leaves(half.state.server))
