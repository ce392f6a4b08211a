"""Commands that run one configuration: demo, run, resume."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import tyro

from ..errors import FedtierError, called
from .shared import Config, Number, Place, Settings, Text, Track, prepare_jax, progress, show


def demo(out: Place = None, json: bool = False) -> None:
    """Compare ZO-HFL with FedAvg, SCAFFOLD, server-only and local-only on embedded data.

    Args:
        out: Folder of the results, a new one; default: runs/DATE-demo.
        json: One JSON object on stdout instead of a table and sentences.
    """
    from ..studies.demo import run_demo

    prepare_jax()
    found = run_demo(out, progress())
    show(found.content if json else found.parts)


def run(
    file: Config = None,
    settings: Settings = (),
    seeds: Number = None,
    out: Place = None,
    track: Track = (),
    profile: bool = False,
    hosts: Text = None,
    rank: Number = None,
    of: Number = None,
    json: bool = False,
) -> None:
    """Run one configuration.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set data.alpha=1. May be repeated.
        seeds: How many seeds to run at once, from run.seed on.
        out: Folder of the results, a new one; default: runs/DATE-METHOD-DATA.
        track: Send every row to a tracker as well: tensorboard or mlflow. May be repeated.
        profile: Say where the time went, and write trace.json into the folder: Perfetto opens it.
        hosts: HOST:PORT of process 0, when several processes, on one machine or many, run this as one.
        rank: Which of them this is, from 0; only process 0 writes and prints.
        of: How many there are.
        json: One JSON object on stdout instead of a table.
    """
    from ..experiments.config import load_config
    from ..experiments.profile import Profile
    from ..experiments.progress import Progress
    from ..experiments.run import run_experiment
    from ..reports.terminal import final_object, profile_table, run_table
    from ..reports.tracking import trackers

    watch = Profile()
    watch.started()
    first = _join(hosts, rank, of)

    config = load_config(file, [*settings, *([f"run.seeds={seeds}"] if seeds is not None else [])])
    prepare_jax()
    if not first:
        with tempfile.TemporaryDirectory() as scratch:
            run_experiment(config, Path(scratch) / "run", progress=Progress())
        return
    result = run_experiment(config, out, progress=progress(), listen=trackers(track), profile=watch)
    if not profile:
        show(final_object(result) if json else run_table(result))
        return
    watch.write(result.folder / "trace.json")
    print(f"trace: {result.folder / 'trace.json'}, for ui.perfetto.dev", file=sys.stderr)
    show(final_object(result) | {"profile": watch.as_object()} if json else [*run_table(result), profile_table(watch)])


def resume(folder: tyro.conf.Positional[Path], rounds: Number = None, track: Track = (), json: bool = False) -> None:
    """Go on with a run that was stopped, from its last checkpoint, or extend one.

    Args:
        folder: The run's folder.
        rounds: Extend the run to so many rounds; the result is that of a run which had them from the start. Until it gets
            there it counts as unfinished, and reports have no final tables of it. The same command goes on after a stop.
        track: Send the rows from there on to a tracker as well: tensorboard or mlflow. May be repeated.
        json: One JSON object on stdout instead of a table.
    """
    from ..experiments.run import resume_experiment
    from ..reports.terminal import final_object, run_table
    from ..reports.tracking import trackers

    prepare_jax()
    result = resume_experiment(folder, progress=progress(), listen=trackers(track), rounds=rounds)
    show(final_object(result) if json else run_table(result))


def _join(hosts: str | None, rank: int | None, of: int | None) -> bool:
    """Joins the other processes, if there are any. Is this the one that speaks?"""
    given = {"--hosts": hosts, "--rank": rank, "--of": of}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        return True
    if missing:
        raise FedtierError(missing[0], None, "must be given too", "--hosts 10.0.0.1:4040 --rank 0 --of 2")
    from ..engines.devices import join_hosts

    sys.stdout = os.fdopen(os.dup(1), "w")  # the library that connects them prints on descriptor 1 ...
    os.dup2(2, 1)  # ... which is for data: send it to stderr
    with called({"address": "--hosts", "rank": "--rank", "of": "--of"}):
        join_hosts(str(hosts), int(rank or 0), int(of or 0))
    return rank == 0
