"""Long and wide runs hold their memory. Each runs in a process of its own, whose peak is then its own."""

import json
import subprocess
import sys

import pytest

FLAT = """
import json, resource, jax
from fedtier import keys
from fedtier.engines import compiled
from fedtier.lab import config
from fedtier.lab.assemble import assemble

cfg = config.read(None, ["run.rounds=1000", "run.tau=0.2", "method.estimator=auto", "method.cohort=latest"])
e = assemble(cfg)
engine = compiled(e.method, capacity=100, seeds=True)
state, peaks = engine.init(e.x, e.federation), []
for first in range(0, 1000, 100):
    state, _ = engine.advance(state, e.federation, e.plan, e.key, first, 100)
    jax.block_until_ready(state)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(json.dumps(peaks))
"""

WIDE = """
import json, resource
from pathlib import Path
from fedtier.lab import config
from fedtier.lab.progress import Progress
from fedtier.lab.run import run

cfg = config.read(None, ["data.name=synthetic", "data.partition=natural", "data.clients=100000", "data.rows=10", "data.features=8",
    "data.server_share=0.01", "data.test_share=0.01", "run.participation=0.001", "run.rounds=20", "run.tau=1", "run.eval_every=20",
    "run.eval_clients=200", "data.client_test_share=0.2", "method.name=NAME"])
result = run(cfg, Path("OUT"), progress=Progress(quiet=True))
print(json.dumps({"gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "cohort": result.experiment.plan.cohort,
    "accuracy": result.final[0]["global_accuracy"]}))
"""


def last_line(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_a_thousand_rounds_hold_memory_flat():
    peaks = last_line(FLAT)
    assert peaks[-1] - peaks[1] < 20  # MiB: after the first stretches nothing grows


@pytest.mark.parametrize("method", ["zo_hfl", "scaffold"])
def test_a_hundred_thousand_clients_with_a_cohort_of_a_hundred_run_within_four_gibibytes(method, tmp_path):
    found = last_line(WIDE.replace("NAME", method).replace("OUT", str(tmp_path / "run")))
    assert found["cohort"] == 100
    assert found["gib"] < 4.0
    assert found["accuracy"] > 0.1


DEVICES = """
import json, jax
jax.config.update("jax_num_cpu_devices", 2)
import numpy as np
from fedtier import keys
from fedtier.engines import compiled
from fedtier.lab import config
from fedtier.lab.assemble import assemble

cfg = config.read(None, ["run.rounds=4", "run.participation=0.5", "method.name=scaffold"])
e = assemble(cfg)
f = jax.tree.map(lambda a: a[0], e.federation._replace(arrays=()))._replace(arrays=e.federation.arrays)
plan = type(e.plan)(*(t[0] for t in e.plan))
x = jax.tree.map(lambda a: a[0], e.x)
ends = []
for devices in (None, jax.devices()):
    engine = compiled(e.method, capacity=4, devices=devices)
    state, _ = engine.advance(engine.init(x, f), f, plan, keys.root(0), 0, 4)
    ends.append(np.asarray(state.server.x.weight))
print(json.dumps({"devices": jax.device_count(), "cohort": plan.cohort, "difference": float(np.abs(ends[0] - ends[1]).max()),
    "size": float(np.abs(ends[0]).max())}))
"""


def test_a_cohort_sharded_over_two_devices_gives_the_same_model():
    found = last_line(DEVICES)
    assert found["devices"] == 2 and found["cohort"] % 2 == 1  # the mesh has to be filled up
    assert found["difference"] <= 1e-6 * found["size"] and found["size"] > 0
