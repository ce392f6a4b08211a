"""The tutorial's commands, as they stand in docs/wire.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .federation import free_port, model

pytestmark = [pytest.mark.flare, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs/wire.md"


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    section = PAGE.read_text().split("\n## ")[1]
    install, *blocks = re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert install == 'pip install "fedtier[flare]"\n'
    data, kits, sites, serve, status, compare = blocks
    meanwhile = f"{serve.rstrip()} &\nserver=$!\nuntil {status.rstrip()}; do sleep 2; done\nwait $server\n"
    script = f"set -e\n{data}{kits}{sites}{meanwhile}{compare}"
    script = script.replace("8002", str(free_port()))
    environment = dict(os.environ) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ending = "kill %1 %2 %3; wait"
    assert f"`{ending.removesuffix('; wait')}`" in section
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ending}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode in (0, 130), done.stderr
    assert "site-2" in done.stdout and (tmp_path / "report.html").exists()
    wired, simulated = model(tmp_path / "runs/rehearsal"), model(tmp_path / "runs/simulated")
    assert np.linalg.norm(wired - simulated) <= 1e-6 * np.linalg.norm(simulated)
