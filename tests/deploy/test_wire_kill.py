"""kill -9 of the server and of solvers at random moments of one run between sites: the same bits in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from ..small_runs import first_slow, metrics
from .test_wire import model, setup


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kills"), first_slow([("scaffold", 1), ("zo_hfl", 4)]))
@pytest.mark.checked
def test_servers_and_solvers_killed_at_random_moments_leave_the_undisturbed_models(tmp_path, method, kills):
    setup(tmp_path, f"method.name={method}", f"run.rounds={12 * kills}", "run.eval_every=4")
    environment = os.environ | {"FEDTIER_CACHE": str(tmp_path / "cache")}

    def command(name):
        return [sys.executable, "-m", "tests.deploy.wire_server", str(tmp_path / "fed"), str(tmp_path / name)]

    subprocess.run(command("first"), env=environment, check=True, capture_output=True)  # compiles
    clock = time.monotonic()
    subprocess.run(command("whole"), env=environment, check=True, capture_output=True)
    length = time.monotonic() - clock
    dice, lives, shot = random.Random(5), 0, 0
    while True:
        lives += 1
        victim = subprocess.Popen(
            command("killed"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert victim.stdout is not None
        for asked, line in enumerate(victim.stdout, 1):  # one line per ask
            if asked == 5 or dice.random() < 0.03:
                with suppress(ProcessLookupError):
                    os.kill(int(dice.choice(line.split()[1:])), signal.SIGKILL)
                shot += 1
            if lives <= kills and asked > 8 and dice.random() < 0.05:
                time.sleep(dice.uniform(0, 0.1))
                victim.send_signal(signal.SIGKILL)
                break
        victim.stdout.close()
        if victim.wait() == 0:
            break
        assert lives < 12
    print(f"{method}: {lives} lives of the server, {shot} solvers shot; undisturbed {length:.1f} s")
    assert lives > kills // 2 and shot >= min(3, kills)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert np.array_equal(model(killed), model(whole))
    ours, theirs = metrics(killed), metrics(whole)
    assert len(ours) == len(theirs) == 3 * kills + 1
    for row, other in zip(ours, theirs, strict=True):
        for key in row.keys() - {"bytes_down"}:  # what was asked again was sent again
            assert row[key] == other[key], key
        assert row["bytes_down"] >= other["bytes_down"]
