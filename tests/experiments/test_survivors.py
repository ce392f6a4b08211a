"""One diverging seed does not void the others; one bad client does not void the run. Both are named."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from fedtier.errors import FedtierWarning
from fedtier.experiments import config as configuration
from fedtier.experiments import run as running
from fedtier.experiments import session
from fedtier.experiments.assemble import assemble
from fedtier.experiments.divergence import Diverged
from fedtier.experiments.outcomes import finished_rows
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import CHECKPOINT, RunFolder
from fedtier.reports.load_runs import load_run

from ..small_runs import SHORT, metrics

THREE = [*SHORT, "method.name=fedavg", "run.seeds=3", "run.seed=5"]


@pytest.fixture(scope="module")
def experiment():
    return assemble(configuration.load_config(None, THREE))


def with_nan_in_seed(experiment, s):
    return experiment._replace(x=jax.tree.map(lambda a: a.at[s].set(jnp.nan), experiment.x))


@pytest.mark.slow
def test_a_seed_whose_state_is_not_finite_ends_and_the_others_are_as_without_it(experiment, tmp_path):
    whole = running.run_experiment(experiment.config, tmp_path / "whole", progress=Progress(), experiment=experiment)
    with pytest.warns(FedtierWarning, match="seed 6 diverged between rounds 0 and 2: the state is no longer finite"):
        result = running.run_experiment(
            experiment.config, tmp_path / "run", progress=Progress(), experiment=with_nan_in_seed(experiment, 1)
        )
    assert [row["seed"] for row in result.final] == [5, 7]
    others = [row for row in metrics(tmp_path / "whole") if row["seed"] != 6]
    assert [row for row in metrics(tmp_path / "run") if row["seed"] != 6] == others
    assert [row["round"] for row in metrics(tmp_path / "run") if row["seed"] == 6] == [0]
    assert [seed["seed"] for seed in json.loads((tmp_path / "run" / "clients.json").read_text())] == [5, 7]
    model, all_three = (safetensors.numpy.load_file(tmp_path / name / "model.safetensors") for name in ("run", "whole"))
    for name, array in model.items():
        np.testing.assert_array_equal(array[[0, 2]], all_three[name][[0, 2]])
        assert np.isnan(array[1]).all()
    assert finished_rows(tmp_path / "run", experiment.config) == result.final and len(whole.final) == 3
    assert "seed 6 diverged" in load_run(tmp_path / "run").diverged


@pytest.mark.slow
def test_a_seed_whose_loss_explodes_ends_in_its_last_sound_state_and_a_resumed_run_knows(experiment, tmp_path, monkeypatch):
    evaluator = session.evaluator

    def loss_of_seed_2_explodes_after_round_2(experiment, engine):
        evaluate = evaluator(experiment, engine)

        def judge(state, number):
            scores = evaluate(state, number)
            return scores._replace(f1=scores.f1 + 1e9 * (number > 2) * np.asarray([0, 0, 1]))

        return judge

    whole = running.run_experiment(experiment.config, tmp_path / "whole", progress=Progress(), experiment=experiment)
    monkeypatch.setattr(session, "evaluator", loss_of_seed_2_explodes_after_round_2)
    with pytest.warns(FedtierWarning, match="seed 7 diverged between rounds 2 and 4: the loss rose"):
        running.run_experiment(experiment.config, tmp_path / "run", progress=Progress(), experiment=experiment)
    final = [row for row in metrics(tmp_path / "whole") if row["round"] == 6][:2]
    assert [row for row in metrics(tmp_path / "run") if row["round"] == 6] == final
    state, words = RunFolder(tmp_path / "run").read_arrays(CHECKPOINT, like=whole.state)
    assert words["round"] == "6"
    short = running.run_experiment(
        configuration.load_config(None, [*THREE, "run.rounds=2"]), tmp_path / "short", progress=Progress()
    )
    for found, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(short.state), strict=True):
        np.testing.assert_array_equal(found[2], wanted[2])
    before = metrics(tmp_path / "run")
    with pytest.warns(FedtierWarning, match="seed 7 diverged"):
        again = running.resume_experiment(tmp_path / "run", progress=Progress())
    assert metrics(tmp_path / "run") == before and len(again.final) == 2


@pytest.mark.slow
def test_a_run_whose_seeds_all_diverge_is_refused_as_before(experiment, tmp_path):
    lost = experiment._replace(x=jax.tree.map(lambda a: a + jnp.nan, experiment.x))
    with pytest.raises(Diverged, match="the state is no longer finite"):
        running.run_experiment(experiment.config, tmp_path / "run", progress=Progress(), experiment=lost)
    assert finished_rows(tmp_path / "run", experiment.config) == []


@pytest.mark.slow
def test_a_client_whose_rows_are_1e30_is_named_and_the_run_ends(tmp_path):
    """One seed: under another the same rows may be the server's, and a server whose rows are wild has no model."""
    experiment = assemble(configuration.load_config(None, [*SHORT, "method.name=fedavg", "run.seed=6"]))
    start, size = (int(a[0, 2]) for a in experiment.federation.train)  # client 2
    rows = np.asarray(experiment.federation.index)[0, start : start + size]
    arrays = experiment.federation.arrays
    arrays = arrays._replace(inputs=arrays.inputs.at[rows].set(1e30))
    wild = experiment._replace(federation=experiment.federation._replace(arrays=arrays))
    with pytest.warns(FedtierWarning, match=r"seed 6: client 2: 6 replies lost \(6 not finite\)"):
        result = running.run_experiment(experiment.config, tmp_path / "run", progress=Progress(), experiment=wild)
    assert len(result.final) == 1 and np.isfinite(result.final[0]["global_loss"])
    (clients,) = json.loads((tmp_path / "run" / "clients.json").read_text())
    assert clients["lost_replies"] == [{"client": 2, "not_finite": 6, "too_large": 0}]
    assert "seed 6: client 2: 6 replies lost" in (tmp_path / "run" / "run.log").read_text()


@pytest.mark.slow
def test_a_run_in_which_no_reply_counts_has_diverged(tmp_path):
    config = configuration.load_config(None, [*SHORT, "method.name=fedavg", "method.client_lr=constant(1e30)"])
    with pytest.raises(Diverged, match="every reply was lost"):
        running.run_experiment(config, tmp_path / "run", progress=Progress())


@pytest.mark.slow
def test_a_checkpoint_without_a_record_of_replies_is_still_read(experiment, tmp_path):
    """As written before there was one: then nothing had been counted."""
    result = running.run_experiment(experiment.config, tmp_path / "run", progress=Progress(), experiment=experiment)
    files = RunFolder(tmp_path / "run")
    _, words = files.read_arrays(CHECKPOINT, like=result.state)
    files.write_arrays(CHECKPOINT, result.state._replace(replies=()), **{k: v for k, v in words.items() if k != "format"})
    resumed = running.resume_experiment(tmp_path / "run", progress=Progress())
    jax.tree.map(np.testing.assert_array_equal, resumed.state[:2], result.state[:2])
    assert not np.any(resumed.state.replies.not_finite)
