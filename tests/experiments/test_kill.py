"""kill -9 at random moments of one run: what is left goes on, and ends bit for bit where the undisturbed run ends."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from ..small_runs import first_slow, metrics, options

LONG = [
    "data.name=synthetic", "data.clients=6", "data.partition=natural", "run.rounds=3000", "run.eval_every=20",
    "run.checkpoint_every=30", "run.tau=1", "run.seeds=2", "method.batch=8",
]  # fmt: skip


@pytest.mark.parametrize(("method", "kills"), first_slow([("scaffold", 2), ("zo_hfl", 6)]))
def test_a_run_killed_many_times_ends_like_the_undisturbed_one(tmp_path, method, kills):
    environment = os.environ | {"FEDTIER_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"}

    def command(folder: Path) -> list[str]:
        start = ["run", *options([*LONG, f"method.name={method}"]), "--out", str(folder)]
        words = ["resume", str(folder)] if (folder / "config.toml").exists() else start
        return [sys.executable, "-m", "fedtier", *words]

    subprocess.run(command(tmp_path / "first"), env=environment, check=True, capture_output=True)  # compiles
    clock = time.perf_counter()
    subprocess.run(command(tmp_path / "whole"), env=environment, check=True, capture_output=True)
    length = time.perf_counter() - clock
    rounds = json.loads((tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()[-1])["seconds"]["run"]
    start = length - rounds  # until the first round: Python, data, programs

    moments = random.Random(7)
    folder, left = tmp_path / "killed", []
    for life in range(kills):  # in turn before the rounds and among them; together they do not reach the end
        with subprocess.Popen(
            command(folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as victim:
            if life % 2:
                time.sleep(moments.uniform(0.0, 0.8) * start)
            else:
                assert any("rounds to go" in line for line in victim.stderr or ())
                time.sleep(moments.uniform(0.0, 0.12) * rounds)
            assert victim.poll() is None, "ended before it was killed"
            victim.send_signal(signal.SIGKILL)
        left.append(lines(folder))
    print(f"{method}: {start:.1f} s to start, {rounds:.1f} s of rounds; rows after each kill: {left}")
    subprocess.run(command(folder), env=environment, check=True, capture_output=True)
    assert metrics(folder) == metrics(tmp_path / "whole") and len(metrics(folder)) == 2 * 151
    for name in ("clients.json", "partition.json", "config.toml"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    for name in ("model.safetensors", "checkpoint.safetensors", "plan.safetensors"):
        one, other = (safetensors.numpy.load_file(f / name) for f in (folder, tmp_path / "whole"))
        assert one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one), name


def lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0
