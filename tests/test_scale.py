"""Long and wide runs hold their memory. Each runs in a process of its own, whose peak is then its own."""

import json
import os
import subprocess
import sys

import pytest

from .small_runs import first_slow

# The peak of this very program: what `resource` tells is never below the peak of the process that started it.
PEAK = """
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024  # MiB
"""

FLAT = """
import json, jax
from fedtier import keys
from fedtier.engines import compiled
from fedtier.experiments import config
from fedtier.experiments.assemble import assemble

cfg = config.load_config(None, ["run.rounds=1000", "run.tau=0.2", "method.estimator=auto", "method.remembered=10"])
e = assemble(cfg)
engine = compiled(e.method, capacity=100, seeds=True)
state, peaks = engine.init(e.x, e.federation), []
for first in range(0, 1000, 100):
    state, _ = engine.advance(state, e.federation, e.plan, e.key, first, 100)
    jax.block_until_ready(state)
    peaks.append(peak())
print(json.dumps(peaks))
"""

WIDE = '''
import json
from pathlib import Path
from fedtier.experiments import config
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

cfg = config.load_config(None, """data.name=synthetic data.partition=natural data.clients=100000 data.rows=10 data.features=8
    data.server_share=0.01 data.test_share=0.01 data.client_test_share=0.2 method.name=NAME method.server_seat=false
    run.participation=0.001 run.rounds=20 run.tau=1 run.eval_every=20 run.eval_clients=200""".split())
result = run_experiment(cfg, Path("OUT"), progress=Progress())
print(json.dumps({"gib": peak() / 1024, "cohort": result.experiment.plan.cohort,
    "accuracy": result.final[0]["global_accuracy"]}))
'''


def last_line(program, **variables):
    changed = {key: value for key, value in (os.environ | variables).items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-c", PEAK + program], capture_output=True, text=True, check=False, timeout=600, env=changed
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_a_thousand_rounds_hold_memory_flat():
    peaks = last_line(FLAT)
    assert peaks[-1] - peaks[1] < 20  # MiB: after the first stretches nothing grows


@pytest.mark.parametrize("method", first_slow(["zo_hfl", "scaffold"]))
def test_a_hundred_thousand_clients_with_a_cohort_of_a_hundred_run_within_four_gibibytes(method, tmp_path):
    found = last_line(WIDE.replace("NAME", method).replace("OUT", str(tmp_path / "run")))
    assert found["cohort"] == 100
    assert found["gib"] < 4.0
    assert found["accuracy"] > 0.1


DEVICES = """
from fedtier.compilation import configure_jax
import json, sys
from fedtier import keys
from fedtier.engines import compiled
from fedtier.experiments import config
from fedtier.experiments.assemble import assemble
import jax, numpy as np

def ends(e, seeds):
    found = []
    for devices in (jax.devices()[:1], None):
        engine = compiled(e.method, capacity=4, devices=devices, seeds=True)
        state, _ = engine.advance(engine.init(e.x, e.federation), e.federation, e.plan, e.key, 0, 4)
        found.append([np.asarray(leaf) for leaf in jax.tree.leaves(state)])
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(*found))

configure_jax()
out = {"devices": jax.device_count()}
for seeds in (1, 3):
    e = assemble(config.load_config(None, ["run.rounds=4", "run.participation=0.5", "run.tau=3", "run.stragglers=0.3",
        "method.name=scaffold", "method.server_seat=false", f"run.seeds={seeds}"]))
    out[f"difference_{seeds}"] = ends(e, seeds)
    out["cohort"] = e.plan.cohort
print(json.dumps(out))
"""


@pytest.mark.slow
def test_all_cores_are_used_once_asked_for_and_give_the_model_of_one():
    found = last_line(DEVICES, JAX_NUM_CPU_DEVICES=None)
    assert found["devices"] == len(os.sched_getaffinity(0))
    found = last_line(DEVICES, JAX_NUM_CPU_DEVICES="2")
    assert found["devices"] == 2 and found["cohort"] % 2 == 1  # there is an empty seat, in the cohort and among the seeds
    assert found["difference_1"] <= 1e-6  # the cohort is shared
    assert found["difference_3"] <= 1e-6  # the seeds are shared


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"JAX_NUM_CPU_DEVICES": "1"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}])
def test_whoever_says_how_many_devices_there_are_is_obeyed(asked):
    found = last_line("import fedtier.keys, jax; print(jax.device_count())", **asked)
    assert found == int(next(iter(asked.values()))[-1])
    late = "import jax; jax.devices(); import fedtier.keys; print(jax.device_count())"
    assert last_line(late, JAX_NUM_CPU_DEVICES=None) == 1  # JAX was running already


LAGGING = """
import time, jax, jax.numpy as jnp, numpy as np
from fedtier.compilation import jitted, use_all_cores
from jax.sharding import Mesh, PartitionSpec as P
use_all_cores()

def late(x):
    time.sleep(65)
    return x

def gathered(x):
    lag = lambda y: jax.pure_callback(late, jax.ShapeDtypeStruct(y.shape, y.dtype), y)
    return jax.lax.all_gather(jax.lax.cond(jax.lax.axis_index("d") == 0, lag, lambda y: y, x), "d", tiled=True)

mesh = Mesh(np.array(jax.devices()), ("d",))
each = jax.shard_map(gathered, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)
print(float(jnp.sum(jitted(each)(jnp.ones(2)))))
"""


@pytest.mark.slow
def test_a_core_that_is_a_minute_behind_ends_nothing():
    """Seen: the residual net on two cores, where XLA ended the process 60 seconds after the first core had come."""
    assert last_line(LAGGING, JAX_NUM_CPU_DEVICES="2") == 2.0
