"""Runs of asynchronous methods: virtual time in every row, resumed bit for bit, and what is refused before any work."""

import numpy as np
import pytest

from fedtier.deploy.settings import load_run_file
from fedtier.errors import FedtierError
from fedtier.experiments.assemble import assemble
from fedtier.experiments.config import load_config
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment

from ...small_runs import SMALL, first_slow, metrics

SETTINGS = [*SMALL, "method.name=fedbuff", "method.buffer=1", "method.batch=4", "run.eval_every=2", "run.tau=1"]
SETTINGS += ["run.speed_spread=30", "run.participation=1", "run.seeds=2"]


def config_of(rounds, *more):
    return load_config(settings=[*SETTINGS, f"run.rounds={rounds}", *more])


def test_the_plan_of_a_configuration_has_a_buffer_of_the_methods_size_and_the_seat_of_the_server():
    plan = assemble(config_of(9, "method.buffer=3")).plan
    assert plan.ids.shape == plan.staleness.shape == (2, 9, 4) and plan.seconds.shape == (2, 9)
    assert (plan.ids[:, :, -1] == 4).all() and not plan.staleness[:, :, -1].any()


def test_a_clock_changes_nothing_of_a_synchronous_run_but_its_times():
    plain = load_config(settings=[*SMALL, "method.name=fedavg", "run.rounds=4"])
    clocked = load_config(settings=[*SMALL, "method.name=fedavg", "run.rounds=4", "run.speed_spread=10", "run.latency=2"])
    a, b = assemble(plain).plan, assemble(clocked).plan
    assert a.seconds is None and b.seconds.shape == (1, 4) and (np.diff(b.seconds) >= 2).all()
    for one, other in zip(a[:3], b[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_runs_from_before_there_was_a_clock_keep_their_digest():
    config = load_config(settings=[*SMALL, "method.name=fedavg"])
    assert "speed_spread" not in config.toml()
    touched = config.model_copy(update={"run": config.run.model_copy(update={"speed_spread": 2.0})})
    assert touched.digest() != config.digest()
    content = config.model_dump()["run"]
    assert {key: content[key] for key in ("speed_spread", "step_seconds", "latency")} == {
        "speed_spread": None, "step_seconds": 1.0, "latency": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (["data.clients=3", "data.partition=iid", "method.name=fedbuff", "method.buffer=4"], "method.buffer"),
        (["method.name=fedavg", "run.latency=3"], "run.latency"),
        (["method.name=fedavg", "run.step_seconds=3"], "run.step_seconds"),
        (["run.speed_spread=0.5"], "run.speed_spread"),
        (["method.name=fedbuff", "method.buffer=0"], "method.buffer"),
        (["method.name=fedasync", "run.order=poisson"], "run.order"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_key(settings, name):
    with pytest.raises(FedtierError, match=name):
        load_config(settings=settings)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("[run]\nspeed_spread = 10.0", "run.speed_spread"),
        ('[method]\nname = "fedbuff"\nbuffer = 2\n[run]\nparticipation = 0.5', "run.participation"),
        ('[method]\nname = "fedasync"\n[run]\nlatency = 2.0', "run.latency"),
        ('[method]\nname = "fedasync"\n[run]\ndropouts = 0.5', "run.dropouts"),
        ('max_staleness = 3\n[method]\nname = "fedavg"', "wire.max_staleness"),
    ],
)
def test_between_sites_the_clock_is_the_real_one_and_every_site_works(tmp_path, lines, name):
    wire = '[wire]\nsites = ["a", "b"]\nserver = "s.csv"\ntest = "t.csv"\n'
    (tmp_path / "run.toml").write_text(f"{wire}{lines}\n")
    with pytest.raises(FedtierError, match=name):
        load_run_file(tmp_path / "run.toml")


def test_between_sites_an_asynchronous_method_has_all_sites_at_work_unless_told(tmp_path):
    words = '[method]\nname = "fedbuff"\nbuffer = 2\n[wire]\nsites = ["a", "b"]\nserver = "s.csv"\ntest = "t.csv"\n'
    (tmp_path / "run.toml").write_text(words)
    assert load_run_file(tmp_path / "run.toml").config.run.participation == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("short", "long"), first_slow([(3, 16), (12, 16)]))
@pytest.mark.checked
def test_an_extended_asynchronous_run_is_bit_for_bit_the_longer_one(tmp_path, short, long):
    """From 3 rounds on somebody works for longer than anybody did before: the ring is too short, and the run begins anew."""
    before, after = (assemble(config_of(rounds)).plan.history for rounds in (short, long))
    assert (before < after) == (short == 3)
    run_experiment(config_of(short), tmp_path / "short", progress=Progress())
    resume_experiment(tmp_path / "short", progress=Progress(), rounds=long)
    result = run_experiment(config_of(long), tmp_path / "long", progress=Progress())
    rows = metrics(tmp_path / "long")
    assert metrics(tmp_path / "short") == rows
    assert ("starts again from round 0" in (tmp_path / "short" / "run.log").read_text()) == (short == 3)
    plan = result.experiment.plan
    last = [row for row in rows if row["round"] == long]
    np.testing.assert_allclose([row["virtual_seconds"] for row in last], plan.seconds[:, -1])
    assert {row["virtual_seconds"] for row in rows if row["round"] == 0} == {0.0}
