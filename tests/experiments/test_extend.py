"""`resume --rounds` extends a run: it is then the run that had so many rounds from the start."""

import numpy as np
import pytest
import safetensors.numpy

from fedtier.errors import FedtierError
from fedtier.experiments import run as running
from fedtier.experiments.config import load_config
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment
from fedtier.experiments.run_folder import RunFolder
from fedtier.federation import make_plan

from ..small_runs import SMALL, metrics, options

SETTINGS = [*SMALL, "method.name=scaffold", "method.batch=4", "run.eval_every=2", "run.tau=1", "run.seeds=2"]
SETTINGS += ["run.stragglers=0.3", "run.dropouts=0.3"]


@pytest.mark.slow
def test_an_extended_run_is_bit_for_bit_the_longer_one(fedtier, tmp_path):
    code, _, err = fedtier("run", *options([*SETTINGS, "run.rounds=3"]), "--out", "short")
    assert code == 0, err
    code, out, err = fedtier("resume", "short", "--rounds", 6, "--json")
    assert code == 0 and '"round": 6' in out, err
    config = load_config(settings=[*SETTINGS, "run.rounds=6"])
    run_experiment(config, tmp_path / "long", progress=Progress())
    assert metrics(tmp_path / "short") == metrics(tmp_path / "long")  # no row at the old end, which is no multiple of 2
    assert load_config(tmp_path / "short" / "config.toml") == config
    for name in ("plan", "model", "checkpoint"):
        ours, theirs = (safetensors.numpy.load_file(tmp_path / place / f"{name}.safetensors") for place in ("short", "long"))
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs), name
    with pytest.raises(FedtierError, match="never shortened"):
        resume_experiment(tmp_path / "short", progress=Progress(), rounds=6)


def test_an_extension_that_was_stopped_goes_on_by_the_same_command(tmp_path):
    """Seen: refused, because the configuration had the new number of rounds already."""
    files, config = RunFolder(tmp_path), load_config(settings=[*SETTINGS, "run.rounds=3"])
    files.write("clients.json", b"[]")  # the short run has got to its end
    longer = running._extended(config, files, 6)
    assert longer.run.rounds == 6 and running._extended(longer, files, 6) == longer
    with pytest.raises(FedtierError, match="never shortened"):
        running._extended(longer, files, 5)
    files.write("clients.json", b"[]")  # so has the long one
    with pytest.raises(FedtierError, match="more than the 6"):
        running._extended(longer, files, 6)


def test_a_plan_of_more_rounds_begins_with_the_shorter_one():
    def plan(rounds):
        rng = np.random.default_rng(4)
        return make_plan(rng, clients=7, rounds=rounds, participation=0.5, tau=2, stragglers=0.4, dropouts=0.4, seat=True)

    for short, long in zip(plan(5)[:3], plan(9)[:3], strict=True):
        np.testing.assert_array_equal(short, long[:5])
