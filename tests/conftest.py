"""What all tests share: one cache of compiled programs, the command in this process."""

import fcntl
import os
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("FEDTIER_CACHE", str(Path(tempfile.gettempdir()) / f"fedtier-tests-{os.getuid()}" / "xla"))

# Tests are compiled in little time, not for speed. FEDTIER_TESTS=thorough compiles as for users and checks every annotation,
# shapes by jaxtyping and types by beartype. An int is a fine float, as in Python.
if os.environ.get("FEDTIER_TESTS") == "thorough":
    from jaxtyping import install_import_hook

    install_import_hook("fedtier", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))").__enter__()
else:
    quickly = " --xla_backend_optimization_level=0"
    if version("jaxlib").startswith("0.10."):  # half of the time; a jaxlib that does not know a flag does not start
        quickly += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + quickly

import jax
import pytest

from fedtier import cli
from fedtier.compilation import configure_jax
from fedtier.experiments.comparison import comparison_of
from fedtier.experiments.outcomes import Outcome, run_cells
from fedtier.experiments.progress import Progress

from .small_runs import METHODS, SHORT

configure_jax()
jax.config.update("jax_numpy_rank_promotion", "raise")  # a shape that is stretched without a word hides mistakes


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
def outcome(tmp_path_factory) -> Outcome:
    """Four methods, two seeds, one setting; local_only has no global model, server_only sends nothing.

    The workers of one test session share the store: the first runs the cells, the others find them.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cells-of-all-tests"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = comparison_of(METHODS, folder, [*SHORT, "run.seeds=2"], baseline="server_only")
        return run_cells(wanted, Progress())


@pytest.fixture(scope="session")
def cells(outcome) -> Path:
    return outcome.comparison.cells[0].folder.parent
