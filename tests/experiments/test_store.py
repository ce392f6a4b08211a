"""A store that survives: full disk, read-only folder, truncated and foreign files. What was complete stays usable."""

import errno
import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import run as running
from fedtier.experiments import run_folder
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.session import Result
from fedtier.storage import files

from ..small_runs import SHORT, metrics, mostly_slow, options

QUIET = Progress()
ALONE = [*SHORT, "method.name=server_only"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Result:
    return running.run_experiment(
        configuration.load_config(None, ALONE), tmp_path_factory.mktemp("store") / "whole", progress=QUIET
    )


class FullDisk:
    """`open` whose files take `room` bytes in all, then no more: as a full disk does, in the middle of a write."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __call__(self, path, mode, **words):
        disk, file = self, open(path, mode, **words)  # noqa: SIM115
        write = file.write

        class Full(io.IOBase):
            def write(self, data):
                data = data.encode() if isinstance(data, str) else data
                taken = data[: disk.room]
                disk.room -= len(taken)
                write(taken if "b" in mode else taken.decode())
                if len(taken) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            def flush(self):
                file.flush()

            def fileno(self):
                return file.fileno()

            def close(self):
                file.close()

        return Full()


@pytest.mark.slow
@pytest.mark.parametrize("share", mostly_slow([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99], 0.5))
def test_a_full_disk_at_any_moment_is_told_and_the_run_goes_on_when_there_is_room(whole, tmp_path, monkeypatch, share):
    needed = []
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        ample = FullDisk(10**9)
        for module in (files, run_folder):
            patch.setattr(module, "open", ample, raising=False)
        running.run_experiment(whole.config, tmp_path / "ample", progress=QUIET, experiment=whole.experiment)
        needed.append(10**9 - ample.room)
    with monkeypatch.context() as patch, pytest.raises(FedtierError, match=r"cannot be written: No space left"):
        full = FullDisk(int(share * needed[0]))
        for module in (files, run_folder):
            patch.setattr(module, "open", full, raising=False)
        running.run_experiment(whole.config, folder, progress=QUIET, experiment=whole.experiment)
    assert not list(folder.glob("*.part")) and not list(folder.glob(".*.part"))
    complete = RunFolder(folder).rows()  # readable, and a beginning of the whole
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in complete] == metrics(whole.folder)[: len(complete)]
    if (folder / "config.toml").exists():
        running.resume_experiment(folder, progress=QUIET)
    else:
        running.run_experiment(whole.config, folder, progress=QUIET, experiment=whole.experiment)
    assert metrics(folder) == metrics(whole.folder)


@pytest.mark.slow
def test_a_small_real_disk_that_fills_up(fedtier, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting needs rights that this machine does not give")
    try:
        code, out, err = fedtier("run", *options([*ALONE, "run.rounds=200"]), "--out", disk / "run")
        assert code == 2 and out == "" and "No space left" in err and "hint: what was written before is whole" in err
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        if (disk / "run" / "config.toml").exists():
            assert fedtier("resume", disk / "run")[0] == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, out, err = fedtier("run", *options(ALONE), "--out", disk / "other")
        assert code == 2 and out == "" and "Read-only file system" in err and "choose another folder" in err
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_cannot_be_written_is_refused_at_once(fedtier, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code, out, err = fedtier("run", *options(ALONE), "--out", tmp_path / "file" / "run")
    assert code == 2 and out == "" and "cannot be written" in err and "choose another folder" in err
    assert (tmp_path / "file").read_text() == "not a folder"


def copy(source: Path, target: Path) -> Path:
    return shutil.copytree(source, target)


@pytest.mark.slow
def test_a_truncated_checkpoint_without_one_before_it_is_refused_by_name_and_nothing_else_is_touched(fedtier, whole, tmp_path):
    folder = copy(whole.folder, tmp_path / "cut")
    (folder / "previous-checkpoint.safetensors").unlink()
    data = (folder / "checkpoint.safetensors").read_bytes()
    for size in (0, 5, len(data) // 2, len(data) - 1):
        (folder / "checkpoint.safetensors").write_bytes(data[:size])
        code, out, err = fedtier("resume", folder)
        assert code == 2 and out == "" and "checkpoint.safetensors: is damaged" in err and "hint:" in err, size
        assert metrics(folder) == metrics(whole.folder)
    assert fedtier("report", folder, "--out", tmp_path / "r.html")[0] == 0  # what was complete is still good


def test_a_checkpoint_of_another_run_is_refused_even_where_every_shape_fits(whole, tmp_path):
    other = running.run_experiment(configuration.load_config(None, [*ALONE, "run.seed=5"]), tmp_path / "other", progress=QUIET)
    folder = copy(whole.folder, tmp_path / "mixed")
    (folder / "checkpoint.safetensors").write_bytes((other.folder / "checkpoint.safetensors").read_bytes())
    with pytest.raises(FedtierError, match=r"checkpoint\.safetensors: belongs to another run"):
        running.resume_experiment(folder, progress=QUIET)
    assert metrics(folder) == metrics(whole.folder)


def test_a_damaged_line_of_metrics_is_named_and_a_half_written_one_is_no_row(whole, tmp_path):
    folder = copy(whole.folder, tmp_path / "bad")
    lines = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(lines + '{"round": 8, "se')
    assert len(RunFolder(folder).rows()) == lines.count("\n")
    (folder / "metrics.jsonl").write_text(lines.replace('"round": 0', '"round": 9', 1))
    with pytest.raises(FedtierError, match=r"metrics\.jsonl, line 1: is damaged: its checksum does not hold"):
        running.resume_experiment(folder, progress=QUIET)
    (folder / "metrics.jsonl").write_text("")
    with pytest.raises(FedtierError, match=r"has 0 rows, the checkpoint was written after 4"):
        running.resume_experiment(folder, progress=QUIET)
