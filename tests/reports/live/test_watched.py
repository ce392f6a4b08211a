"""What is said of a run is what its folder holds: simulations, stores, and how a run stands."""

import json
import os
import shutil
import time

import numpy as np
import pytest
import safetensors.numpy

from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.experiments.run_folder import RunFolder
from fedtier.reports.live import watched as module
from fedtier.reports.live.verdict import exit_status
from fedtier.reports.live.watched import Watched

from ...small_runs import SHORT, metrics
from .serving import half_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two of four clients a round, some replies lost, some clients without a step."""
    settings = [*SHORT, "method.name=fedavg", "run.participation=0.5", "run.dropouts=0.3", "run.stragglers=0.3"]
    folder = tmp_path_factory.mktemp("watched") / "run"
    run_experiment(configuration.load_config(None, settings), folder, progress=Progress())
    return folder


def only(folder, **more):
    (found,) = Watched(folder, **more).look().runs
    return found


def test_a_finished_run_is_told_with_the_numbers_of_its_last_row(run):
    found, row = only(run), metrics(run)[-1]
    assert (found.phase, found.round, found.rounds, found.seconds_left) == ("finished", 6, 6, None)
    assert found.shared == row["global_accuracy"] and found.loss == row["global_loss"]
    assert found.gap == pytest.approx(row["personal_accuracy"]["mean"] - row["global_on_clients"]["mean"])
    assert (found.bytes_down, found.bytes_up) == (row["bytes_down"], row["bytes_up"])
    assert found.evaluations == [0, 2, 4, 6] and found.epsilon is None and found.log[-1].endswith(" finished")


def test_the_strips_end_with_the_accuracies_that_clients_json_has(run):
    found, told = only(run), json.loads((run / "clients.json").read_text())[0]
    assert [client.name for client in found.clients] == told["names"]
    for k, client in enumerate(found.clients):
        assert len(client.strip) == 4 and client.strip[-1] == client.personal == pytest.approx(told["personal"][k], rel=1e-3)
        assert client.gap == pytest.approx(told["personal"][k] - told["global"][k], abs=1e-3)


def test_who_answered_is_what_the_plan_says(run):
    plan = {name: table[0] for name, table in safetensors.numpy.load_file(run / "plan.safetensors").items()}
    for i, client in enumerate(only(run).clients):
        seats = [(r, s) for r in range(6) for s in range(plan["ids"].shape[1]) if plan["ids"][r, s] == i]
        came = [r for r, s in seats if plan["arrived"][r, s]]
        assert client.counted == len(came) and client.silent == len(seats) - len(came)
        assert client.last == (came[-1] if came else None)
        here = [s for r, s in seats if r == 5]
        lost, still = bool(here) and not plan["arrived"][5, here[0]], bool(here) and not plan["steps"][5, here[0]]
        assert client.standing == ("not asked" if not here else "silent" if lost else "late" if still else "answered")
        assert bool(client.why) == (client.standing != "answered")


def test_time_a_round_and_time_left_come_from_the_latest_evaluations(run, tmp_path):
    half_of(run, tmp_path / "run")
    rows = RunFolder(run).rows()[:3]
    for row, seconds in zip(rows, (0.0, 1.0, 5.0), strict=True):
        row["seconds"]["run"] = seconds
    RunFolder(tmp_path / "run").keep_rows(rows)
    with RunFolder(tmp_path / "run").held():
        found = only(tmp_path / "run")
    assert (found.phase, found.round, found.seconds_a_round, found.seconds_left) == ("running", 4, 5 / 4, 2 * 5 / 4)


def test_epsilon_is_told_where_the_rows_have_one(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    RunFolder(tmp_path / "run").keep_rows([row | {"epsilon": 0.5 * k} for k, row in enumerate(RunFolder(run).rows())])
    assert only(tmp_path / "run").epsilon == 1.5


def test_a_run_stands_as_its_lock_and_its_files_say(run, tmp_path):
    folder = tmp_path / "run"
    half_of(run, folder)
    assert only(folder).phase == "stopped" and "fedtier resume" in only(folder).why
    assert exit_status(Watched(folder).look()) == 5
    with RunFolder(folder).held():
        assert only(folder).phase == "running" and exit_status(Watched(folder).look()) == 0
        old = time.time() - 1000
        for file in folder.iterdir():
            os.utime(file, (old, old))
        assert only(folder).phase == "stalled" and exit_status(Watched(folder).look()) == 3
        assert only(folder, stalled_after=2000).phase == "running"
        (folder / "metrics.jsonl").unlink()
        assert only(folder, stalled_after=2000).phase == "starting"
    (folder / "diverged.json").write_text(json.dumps({"after": 2, "by": 4, "why": "the loss rose"}))
    assert only(folder).phase == "diverged" and only(folder).why == "between rounds 2 and 4: the loss rose"
    assert exit_status(Watched(folder).look()) == 6


def test_looking_takes_no_lock_away(run, tmp_path):
    half_of(run, tmp_path / "run")
    (tmp_path / "run" / "lock").touch()
    for _ in range(20):
        only(tmp_path / "run")
        with RunFolder(tmp_path / "run").held():
            assert only(tmp_path / "run").phase == "running"


def test_a_damaged_file_is_told_and_the_other_runs_too(run, tmp_path):
    for name in ("good", "bad"):
        shutil.copytree(run, tmp_path / "store" / name)
    (tmp_path / "store" / "bad" / "metrics.jsonl").write_text("{not json\n")
    state = Watched(tmp_path / "store").look()
    assert {one.run: one.phase for one in state.runs} == {"good": "finished", "bad": "damaged"}
    assert "line 1" in next(one.why for one in state.runs if one.run == "bad") and exit_status(state) == 6


def test_a_half_written_row_is_not_told(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    whole = only(tmp_path / "run")
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"round": 8, "se')
    assert only(tmp_path / "run")._replace(progressed=whole.progressed) == whole


def test_a_store_has_all_its_runs(cells, outcome):
    state = Watched(cells).look()
    assert {run.run for run in state.runs} == {cell.folder.name for cell in outcome.comparison.cells}
    assert {run.title for run in state.runs} == {
        f"{name} on synthetic" for name in ("ZO-HFL", "FedAvg", "server only", "local only")
    }
    assert all(run.phase == "finished" and run.clients for run in state.runs[: module.DETAILED])
    alone = next(run for run in state.runs if "local" in run.title.lower())
    assert alone.shared is None and alone.gap is None and all(client.strip[-1] is not None for client in alone.clients)


def test_a_large_store_is_told_in_part_and_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_RUNS", 2)
    monkeypatch.setattr(module, "DETAILED", 1)
    for k in range(3):
        shutil.copytree(run, tmp_path / "store" / str(k))
    state = Watched(tmp_path / "store").look()
    assert state.left_out == 1 and [bool(one.clients) for one in state.runs] == [True, False]


def test_an_empty_folder_waits_for_its_first_run(tmp_path, run):
    watched = Watched(tmp_path)
    assert watched.look().runs == [] and exit_status(watched.look()) == 0
    shutil.copytree(run, tmp_path / "later")
    assert [one.run for one in watched.look().runs] == ["later"]


def test_of_many_clients_evenly_spaced_ones_are_told():
    config = configuration.load_config(None, ["run.eval_clients=500"])
    told = module.who_is_told(1000, config)
    evaluated = np.unique(np.linspace(0, 999, 500).astype(int))
    assert len(told) == 200 and told[0] == 0 and told[-1] == 999 and {*told.tolist()} <= {*evaluated.tolist()}


def test_status_says_it_in_words_as_json_and_by_its_exit_status(fedtier, run, tmp_path):
    half_of(run, tmp_path / "half")
    code, out, _ = fedtier("status", tmp_path / "half")
    assert code == 5 and "stopped" in out and "2 of 6" in out and "fedtier resume" in out
    code, out, _ = fedtier("status", tmp_path / "half", "--json")
    found = json.loads(out)
    assert code == found["exit"] == 5 and found["runs"][0]["round"] == 2
    code, out, _ = fedtier("status", run, "--json")
    assert code == 0 and json.loads(out)["runs"][0]["phase"] == "finished"
