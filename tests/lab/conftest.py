"""A small store of finished cells, and the command in this process."""

import fcntl
import json
import os
import sys
import warnings
from pathlib import Path

import jax
import pytest

from fedtier import cli
from fedtier.lab import compare
from fedtier.lab.cache import use_compilation_cache
from fedtier.lab.cells import from_names
from fedtier.lab.progress import Progress

METHODS = ("zo_hfl", "fedavg", "server_only", "local_only")
SMALL = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "data.client_test_share=0.3"]
SHORT = [*SMALL, "run.rounds=6", "run.eval_every=2", "run.checkpoint_every=4", "run.tau=1", "run.participation=1"]


def options(settings) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def metrics(folder: Path) -> list[dict]:
    """The rows of a run, all but their seconds."""
    rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """These runs share their compiled programs, as a user's do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDTIER_CACHE", str(tmp_path_factory.mktemp("cache")))
        use_compilation_cache()
        yield
    jax.config.update("jax_compilation_cache_dir", None)


@pytest.fixture
def fedtier(monkeypatch, capsys, tmp_path):
    """`fedtier WORDS` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedtier", *map(str, words)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def outcome(tmp_path_factory) -> compare.Outcome:
    """Four methods, two seeds, one setting; local_only has no global model, server_only sends nothing.

    The workers of one test session share the store: the first runs the cells, the others find them.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "lab-cells"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        plan = from_names(METHODS, folder, [*SHORT, "run.seeds=2"], baseline="server_only")
        return compare.play(plan, Progress(quiet=True))


@pytest.fixture(scope="session")
def cells(outcome) -> Path:
    return outcome.plan.cells[0].folder.parent
