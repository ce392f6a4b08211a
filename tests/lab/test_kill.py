"""kill -9 at ten random moments of one run: what is left goes on, and ends bit for bit where the undisturbed run ends."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import metrics, options

LONG = [
    "data.name=synthetic", "data.clients=6", "data.partition=natural", "run.rounds=4000", "run.eval_every=20",
    "run.checkpoint_every=30", "run.tau=1", "run.seeds=2", "method.batch=8",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", ["zo_hfl", "scaffold"])
def test_a_run_killed_ten_times_ends_like_the_undisturbed_one(tmp_path, method):
    environment = os.environ | {"FEDTIER_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"}

    def command(folder: Path) -> list[str]:
        start = ["run", *options([*LONG, f"method.name={method}"]), "--out", str(folder)]
        words = ["resume", str(folder)] if (folder / "config.toml").exists() else start
        return [sys.executable, "-m", "fedtier", *words]

    clock = time.perf_counter()
    subprocess.run(command(tmp_path / "whole"), env=environment, check=True, capture_output=True)
    length = time.perf_counter() - clock
    moments = random.Random(7)
    folder, kills, progress = tmp_path / "killed", 0, []
    while kills < 10:
        victim = subprocess.Popen(command(folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.1, 0.6) * length)
        if victim.poll() is not None:  # finished before its time: one more life, cut short at the very end
            assert victim.returncode == 0
            (folder / "clients.json").unlink()
            kills = 10
            break
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        kills += 1
        progress.append(len(metrics_or_none(folder)))
    subprocess.run(command(folder), env=environment, check=True, capture_output=True)
    assert metrics(folder) == metrics(tmp_path / "whole") and len(metrics(folder)) == 2 * 201
    for name in ("model.safetensors", "clients.json", "plan.safetensors", "partition.json", "config.toml"):
        if (folder / name).exists() or (tmp_path / "whole" / name).exists():
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    print(method, "rows after each kill:", progress)


def metrics_or_none(folder: Path) -> list[bytes]:
    path = folder / "metrics.jsonl"
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []
