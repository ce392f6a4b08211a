"""Trackers: a clear refusal without the package; with it, files written and read back."""

import importlib.util
import threading
import time

import pytest

from fedtier.errors import FedtierWarning
from fedtier.experiments import config as configuration
from fedtier.experiments import run as running
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.session import Listener, Result
from fedtier.reports import tracking

from ..small_runs import SHORT, metrics, options

ALONE = [*SHORT, "method.name=server_only", "run.seeds=2"]


def run_tracked(folder, name: str) -> Result:
    config = configuration.load_config(None, ALONE)
    return running.run_experiment(config, folder, progress=Progress(), listen=tracking.trackers((name,)))


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_refused_with_the_name_of_the_extra(fedtier, tmp_path, monkeypatch, name):
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda word, *rest: None if word == name else known(word, *rest))
    code, out, err = fedtier("run", *options(ALONE), "--track", name)
    assert code == 2 and out == "" and "--track" in err and f'pip install "fedtier[{name}]"' in err
    assert not list(tmp_path.iterdir())


def test_an_unknown_tracker_is_refused(fedtier):
    code, out, err = fedtier("run", *options(ALONE), "--track", "tensorbord")
    assert code == 2 and out == "" and "did you mean 'tensorboard'?" in err


def test_every_known_number_of_a_row_is_a_scalar():
    row = {"round": 4, "seed": 1, "f": 2, "global_loss": None, "personal_accuracy": {"mean": 0.5, "min": None}}
    assert dict(tracking.scalars(row)) == {"f": 2.0, "personal_accuracy/mean": 0.5}


@pytest.mark.slow
def test_a_tracker_that_breaks_is_dropped_and_the_run_goes_on(tmp_path, monkeypatch):
    seen = []

    def breaks(rows):
        seen.append(rows)
        raise ConnectionError("gone")

    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", lambda config, folder: Listener(breaks, lambda finished: None))
    monkeypatch.setattr(tracking, "check_trackers", lambda names: None)  # the package itself need not be there
    with pytest.warns(FedtierWarning, match="tensorboard gets no more rows of this run: ConnectionError: gone"):
        running.run_experiment(
            configuration.load_config(None, ALONE),
            tmp_path / "run",
            progress=Progress(),
            listen=tracking.trackers(("tensorboard",)),
        )
    assert len(seen) == 1 and len(metrics(tmp_path / "run")) == 8


@pytest.mark.slow
@pytest.mark.checked
def test_a_resumed_run_tracks_the_rows_from_its_checkpoint_on(tmp_path, monkeypatch):
    seen = []
    tracker = Listener(lambda rows: seen.extend(row["round"] for row in rows), lambda finished: seen.append(finished))
    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", lambda config, folder: tracker)
    monkeypatch.setattr(tracking, "check_trackers", lambda names: None)  # the package itself need not be there

    class CutShort(RunFolder):
        def append(self, rows):
            if rows[0]["round"] == 6:
                raise SystemExit
            super().append(rows)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(running, "RunFolder", CutShort)
        running.run_experiment(configuration.load_config(None, ALONE), tmp_path / "run", progress=Progress())
    running.resume_experiment(tmp_path / "run", progress=Progress(), listen=tracking.trackers(("tensorboard",)))
    assert seen == [6, 6, True]


def expected(folder, seed: int, name: str) -> list[tuple[int, float]]:
    rows = [row for row in metrics(folder) if row["seed"] == seed]
    return [(row["round"], value) for row in rows for key, value in tracking.scalars(row) if key == name]


@pytest.mark.extras
def test_tensorboard_reads_back_what_the_run_wrote(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = running.run_experiment(
        configuration.load_config(None, ALONE),
        tmp_path / "run",
        progress=Progress(),
        listen=tracking.trackers(("tensorboard",)),
    )
    for seed in (0, 1):
        events = EventAccumulator(str(result.folder / "tensorboard" / f"seed-{seed}")).Reload()
        for name in ("global_accuracy", "personal_accuracy/mean", "f"):
            found = [(event.step, event.value) for event in events.Scalars(name)]
            wanted = expected(result.folder, seed, name)
            assert len(found) == 4 and [a for a, _ in found] == [a for a, _ in wanted]
            assert [b for _, b in found] == pytest.approx([b for _, b in wanted], rel=1e-6)  # float32 in the file
        assert b'name = "server_only"' in events.Tensors("config")[0].tensor_proto.string_val[0]


@pytest.mark.extras
def test_mlflow_reads_back_what_the_run_wrote(fedtier, tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    store = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    code, _, err = fedtier("run", *options(ALONE), "--out", "run", "--track", "mlflow", "--track", "tensorboard")
    assert code == 0, err
    assert (tmp_path / "run" / "tensorboard" / "seed-0").is_dir()
    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("fedtier")
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.params["seed"] for run in runs) == ["0", "1"]
    for run in runs:
        assert run.info.status == "FINISHED" and run.data.params["method.name"] == "server_only"
        for name in ("global_accuracy", "personal_accuracy/mean"):
            history = client.get_metric_history(run.info.run_id, name.replace("/", "."))
            found = sorted((m.step, m.value) for m in history)
            assert found == expected(tmp_path / "run", int(run.data.params["seed"]), name)


@pytest.mark.extras
def test_an_mlflow_store_that_cannot_be_opened_is_told(fedtier, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/mlflow.db")
    code, out, err = fedtier("run", *options(ALONE), "--out", "run", "--track", "mlflow")
    assert code == 2 and out == "" and "--track" in err and "MLFLOW_TRACKING_URI" in err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]  # free for the next attempt


def test_in_the_background_rows_come_in_order_and_the_end_after_them():
    seen = []
    apart = tracking.in_background(Listener(seen.extend, lambda finished: seen.append(finished)))
    for k in range(3):
        apart.rows([{"round": k}])
    apart.close(True)
    assert seen == [{"round": 0}, {"round": 1}, {"round": 2}, True]


def test_in_the_background_a_tracker_that_hangs_holds_up_neither_the_rows_nor_the_end():
    hung = threading.Event()

    def hangs(rows):
        hung.wait(60)

    apart = tracking.in_background(Listener(hangs), patience=0.2)
    before = time.monotonic()
    apart.rows([{"round": 0}])
    apart.rows([{"round": 2}])
    apart.close(False)
    assert time.monotonic() - before < 10
    hung.set()
