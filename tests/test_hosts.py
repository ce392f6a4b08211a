"""Two processes on one machine compute as one, over loopback."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

SETTINGS = [
    *("data.name=synthetic", "data.clients=12", "data.partition=natural", "data.rows=40", "method.name=scaffold"),
    *("run.participation=0.4", "run.rounds=4", "run.eval_every=2", "run.tau=2", "run.stragglers=0.2"),
]


def start(folder, *more):
    words = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-m", "fedtier", "run", *words, "--out", str(folder), "--json", *more]
    variables = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    return out


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_two_processes_give_the_state_and_the_scores_of_one(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    both = [start(tmp_path / f"rank{k}", "--hosts", address, "--rank", str(k), "--of", "2") for k in range(2)]
    alone = json.loads(finished(start(tmp_path / "alone")))
    first, second = (finished(process) for process in both)
    assert second == "" and not (tmp_path / "rank1").exists()  # only process 0 speaks and writes
    together = json.loads(first)
    for key in ("f1", "f2", "global_loss", "global_accuracy"):
        assert together["final"][0][key] == pytest.approx(alone["final"][0][key], rel=1e-6)
    one, two = (safetensors.numpy.load_file(tmp_path / name / "checkpoint.safetensors") for name in ("alone", "rank0"))
    for name, array in one.items():
        np.testing.assert_allclose(two[name], array, rtol=1e-6, atol=1e-7 * np.abs(array).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--rank", "0", "--of", "2"], "--hosts"),
        (["--hosts", "a:1", "--of", "2"], "--rank"),
        (["--hosts", "a:1", "--rank", "2", "--of", "2"], "from 0 to 1"),
        (["--hosts", "a:1", "--rank", "0", "--of", "1"], "--of"),
        (["--hosts", "nowhere", "--rank", "0", "--of", "2"], "HOST:PORT"),
    ],
)
def test_an_incomplete_or_impossible_group_is_refused_before_anyone_waits(words, rule, tmp_path):
    process = start(tmp_path / "run", *words)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and rule in err and "hint" in err
    assert not (tmp_path / "run").exists()
