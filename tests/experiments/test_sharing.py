"""Several processes on one run or one store, and cells that are no longer what they were."""

import json
import multiprocessing
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import origin, outcomes
from fedtier.experiments.comparison import comparison_of, make_comparison
from fedtier.experiments.config import load_config
from fedtier.experiments.jobs import run_in_processes
from fedtier.experiments.outcomes import finished_rows, run_cells
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment
from fedtier.experiments.run_folder import SET_ASIDE, RunFolder, new_folder
from fedtier.storage.files import Lock

from ..small_runs import SHORT

QUIET = Progress()
ALONE = [*SHORT, "method.name=server_only"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_experiment(load_config(None, ALONE), tmp_path_factory.mktemp("run") / "whole", progress=QUIET)


def hold(path: str, held, done) -> None:
    lock = Lock(Path(path))
    assert lock.take() is None
    held.set()
    done.wait(60)
    lock.free()


@pytest.fixture
def other_process(whole):
    """Another process that holds the folder of `whole`."""
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(str(whole.folder / "lock"), held, done))
    process.start()
    assert held.wait(60)
    yield process, done
    done.set()
    process.join()


@pytest.mark.slow
def test_a_run_that_another_process_is_at_is_refused_by_its_number_and_left_alone(whole, other_process):
    before = {file: file.read_bytes() for file in whole.folder.rglob("*") if file.is_file()}
    with pytest.raises(FedtierError, match=f"is in use by process {other_process[0].pid}"):
        resume_experiment(whole.folder, progress=QUIET)
    assert {file: file.read_bytes() for file in whole.folder.rglob("*") if file.is_file()} == before


@pytest.mark.slow
def test_a_cell_that_another_process_is_at_is_waited_for_and_then_found(whole, other_process, monkeypatch):
    process, done = other_process
    heard = []
    monkeypatch.setattr(QUIET, "waiting", lambda holder: (heard.append(holder), done.set()))
    monkeypatch.setattr(outcomes, "begin", lambda *a, **k: pytest.fail("ran again"))
    wanted = comparison_of(["server_only"], whole.folder.parent, SHORT)
    wanted = wanted._replace(cells=[wanted.cells[0]._replace(folder=whole.folder)])
    found = run_cells(wanted, QUIET)
    assert heard == [str(process.pid)] and next(iter(found.finals.values())) == whole.final


def test_a_run_that_ends_frees_its_folder(whole):
    lock = Lock(whole.folder / "lock")
    assert lock.take() is None
    lock.free()


def test_the_final_rows_are_those_of_the_last_round_whatever_else_stands_in_the_file(whole, tmp_path):
    rows = RunFolder(whole.folder).rows()
    torn = RunFolder(tmp_path)
    torn.append([*rows, *rows[:2]])  # as two processes left it: earlier rounds after the last one
    assert torn.final_rows(whole.config) == whole.final and rows[-1]["round"] == whole.config.run.rounds


def test_two_runs_that_start_in_the_same_second_get_two_folders(tmp_path):
    folders = [new_folder("zo_hfl-digits", tmp_path) for _ in range(5)]
    assert len(set(folders)) == 5 and all(folder.is_dir() for folder in folders)


@pytest.fixture
def cell(tmp_path):
    wanted = make_comparison({"methods": [{"name": "server_only"}]}, tmp_path / "cells", SHORT)
    run_cells(wanted, QUIET)
    return wanted


def set_aside(wanted) -> list[str]:
    return sorted(folder.name for folder in (wanted.cells[0].folder.parent / SET_ASIDE).glob("*"))


@pytest.mark.slow
def test_a_cell_of_another_version_of_the_code_is_set_aside_and_run_again_unless_it_is_welcome(cell, monkeypatch):
    old = cell.cells[0].folder / "environment.json"
    old.write_text(json.dumps(json.loads(old.read_text()) | {"code": "another"}))
    run_cells(cell, QUIET, any_version=True)
    assert set_aside(cell) == [] and "another" in old.read_text()
    run_cells(cell, QUIET)
    assert set_aside(cell) == [f"{cell.cells[0].folder.name}-1"] and "another" not in old.read_text()


@pytest.mark.slow
def test_a_cell_whose_rows_have_changed_is_run_again_though_its_configuration_is_the_same(cell, monkeypatch):
    load = outcomes.load_data

    def changed(config):
        data = load(config)
        return data._replace(labels=np.roll(data.labels, 1))

    monkeypatch.setattr(outcomes, "load_data", changed)
    before = (cell.cells[0].folder / "metrics.jsonl").read_bytes()
    run_cells(cell, QUIET, any_version=True)
    assert len(set_aside(cell)) == 1 and (cell.cells[0].folder / "metrics.jsonl").read_bytes() != before


def test_a_package_that_lies_in_anothers_repository_does_not_record_its_commit(tmp_path, monkeypatch):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, "-C", str(tmp_path), *words], check=True, capture_output=True)

    package = tmp_path / "venv" / "fedtier"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "theirs.txt").write_text("theirs")
    git("init")
    git("add", "theirs.txt")
    git("commit", "-m", "theirs")
    monkeypatch.setattr(origin, "PACKAGE", package)
    assert origin._commit() is None
    git("add", "-f", str(package / "__init__.py"))
    git("commit", "-m", "ours")
    assert len(origin._commit() or "") == 40
    assert os.path.exists(package)


@pytest.mark.slow
def test_cells_in_several_processes_are_the_cells_of_one(tmp_path):
    together, apart = (comparison_of(["server_only"], tmp_path / name, SHORT) for name in ("together", "apart"))
    run_in_processes(together, 2, QUIET)
    found = run_cells(together, QUIET).finals
    wanted = run_cells(apart, QUIET).finals
    assert {key: [row | {"seconds": 0} for row in rows] for key, rows in found.items()} == {
        key: [row | {"seconds": 0} for row in rows] for key, rows in wanted.items()
    }


@pytest.mark.slow
def test_a_cell_that_fails_in_its_process_is_named_and_the_others_stay(tmp_path):
    wanted = comparison_of(["server_only"], tmp_path / "cells", SHORT)
    broken = wanted.cells[0].config
    missing = broken.model_copy(
        update={"data": broken.data.model_copy(update={"name": "file", "file": str(tmp_path / "no.csv")})}
    )
    with pytest.raises(FedtierError, match=wanted.cells[0].method):
        run_in_processes(wanted._replace(cells=[wanted.cells[0]._replace(config=missing), wanted.cells[1]]), 2, QUIET)
    assert finished_rows(wanted.cells[1].folder, wanted.cells[1].config)
