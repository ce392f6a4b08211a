"""Listeners: the rows of a run, as they are written, to TensorBoard or MLflow. Both are extras.

tensorboard   event files in the run's folder, tensorboard/seed-K: `tensorboard --logdir runs`
mlflow        one MLflow run per seed, in the experiment "fedtier", wherever MLFLOW_TRACKING_URI points
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# The trackers are extras: their packages are there only where somebody asked for them.
from __future__ import annotations

import importlib.util
import logging
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import FedtierError, FedtierWarning, choice
from ..experiments.metric_row import Row
from ..experiments.session import Listen, Listener
from ..experiments.tables import Config


def check_trackers(names: Sequence[str]) -> None:
    """Refuses an unknown tracker, or one whose package is not installed, before any work starts."""
    for name in names:
        choice("--track", name, TRACKERS)
        if importlib.util.find_spec(name) is None:
            rule = f"needs the package {name}, which is not installed"
            raise FedtierError("--track", name, rule, f'pip install "fedtier[{name}]"')


def trackers(names: Sequence[str]) -> Listen:
    """What opens the named trackers for a run; an unknown or missing one is refused now, before any work."""
    check_trackers(names)
    return lambda config, folder: open_trackers(names, config, folder)


def open_trackers(names: Sequence[str], config: Config, folder: Path) -> Listener:
    """All of them as one. A tracker that fails later on is dropped with a warning: the run matters more."""
    working = {name: TRACKERS[name](config, folder) for name in dict.fromkeys(names)}

    def each(act: Callable[[Listener], None]) -> None:
        for name, tracker in list(working.items()):
            try:
                act(tracker)
            except Exception as error:  # of packages and servers we know nothing about
                del working[name]
                words = f"{name} gets no more rows of this run: {type(error).__name__}: {error}"
                warnings.warn(words, FedtierWarning, stacklevel=3)

    return Listener(lambda rows: each(lambda t: t.rows(rows)), lambda finished: each(lambda t: t.close(finished)))


def in_background(listener: Listener, patience: float = 10.0) -> Listener:
    """The listener in a thread of its own, so that one that hangs holds up nobody; when it is closed it has `patience` seconds
    for what it has not taken yet."""
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            waiting.get()()

    def end(finished: bool) -> None:
        try:
            listener.close(finished)
        finally:
            over.set()

    def close(finished: bool) -> None:
        waiting.put(lambda: end(finished))
        over.wait(patience)

    threading.Thread(target=work, daemon=True, name="trackers").start()
    return Listener(lambda rows: waiting.put(lambda: listener.rows(rows)), close)


def tensorboard(config: Config, folder: Path) -> Listener:
    from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.compat.proto.tensor_pb2 import TensorProto  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.compat.proto.types_pb2 import DT_STRING  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writers = {seed: EventFileWriter(str(folder / "tensorboard" / f"seed-{seed}")) for seed in _seeds(config)}
    words = "".join(f"    {line}\n" for line in config.toml().splitlines())  # four spaces: code, in markdown
    text = TensorProto(dtype=DT_STRING, string_val=[words.encode()])
    as_text = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    for writer in writers.values():
        value = Summary.Value(tag="config", tensor=text, metadata=as_text)
        writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=[value])))

    def log(rows: Sequence[Row]) -> None:
        for row in rows:
            values = [Summary.Value(tag=name, simple_value=number) for name, number in scalars(row)]
            event = Event(wall_time=time.time(), step=row["round"], summary=Summary(value=values))
            writers[row["seed"]].add_event(event)
            writers[row["seed"]].flush()

    def close(finished: bool) -> None:
        for writer in writers.values():
            writer.close()

    return Listener(log, close)


def mlflow(config: Config, folder: Path) -> Listener:
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # stderr is ours
    try:
        client = MlflowClient()
        known = client.get_experiment_by_name("fedtier")
        experiment = known.experiment_id if known else client.create_experiment("fedtier")
        runs = {}
        for seed in _seeds(config):
            tags = {"fedtier.folder": str(folder), "fedtier.digest": config.digest()}
            run = client.create_run(experiment, run_name=f"{folder.name}-seed-{seed}", tags=tags)
            runs[seed] = run.info.run_id
            params = [Param(f"{t}.{k}", str(v)) for t, c in config.model_dump().items() for k, v in c.items() if v is not None]
            client.log_batch(runs[seed], params=[*params, Param("seed", str(seed))])
    except (MlflowException, OSError, ImportError) as error:
        rule = f"cannot start: {str(error).splitlines()[0]}"
        raise FedtierError("--track", "mlflow", rule, "see MLFLOW_TRACKING_URI, for example sqlite:///mlflow.db") from None

    def log(rows: Sequence[Row]) -> None:
        now = int(1000 * time.time())
        for row in rows:
            metrics = [Metric(name.replace("/", "."), number, now, row["round"]) for name, number in scalars(row)]
            client.log_batch(runs[row["seed"]], metrics=metrics)

    def close(finished: bool) -> None:
        for run in runs.values():
            client.set_terminated(run, "FINISHED" if finished else "KILLED")

    return Listener(log, close)


def scalars(row: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """("personal_accuracy/mean", 0.93) and so on; what is not known is left out, and so are the lists by client."""
    for name, value in row.items():
        if name in ("round", "seed"):
            continue
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", number) for key, number in scalars(value))
        elif isinstance(value, int | float):
            yield name, float(value)


def _seeds(config: Config) -> range:
    return range(config.run.seed, config.run.seed + config.run.seeds)


TRACKERS: dict[str, Callable[[Config, Path], Listener]] = {"tensorboard": tensorboard, "mlflow": mlflow}
