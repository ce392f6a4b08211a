"""A run whose files are damaged ends with the models and rows of the undisturbed one and a line that says so, or is refused."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import run as running
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.session import Result

from ..small_runs import SHORT, metrics, mostly_slow

NEWEST, OLDER = "checkpoint.safetensors", "previous-checkpoint.safetensors"


class Heard(Progress):
    """Keeps what is said to people."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        self.lines += lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Result:
    """Six rounds; checkpoints after 0, 4 and 6, rows after 0, 2, 4 and 6."""
    config = configuration.load_config(None, [*SHORT, "method.name=server_only"])
    return running.run_experiment(config, tmp_path_factory.mktemp("damage") / "whole", progress=Progress())


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def header_end(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
        return
    path.write_bytes(
        {
            "length": lambda: flip(data, 0),
            "header": lambda: flip(data, data.index(b'"shape"') + 2),
            "round": lambda: data.replace(b'"round":"', b'"round":"1', 1)[: len(data)],
            "rows": lambda: data.replace(b'"rows":"4"', b'"rows":"3"', 1),
            "data": lambda: flip(data, (header_end(data) + len(data)) // 2),
            "last byte": lambda: flip(data, len(data) - 1),
            "checksum": lambda: flip(data, data.index(b'"header":"') + 12),
            "arrays' checksum": lambda: flip(data, data.index(b'"arrays":"') + 12),
            "half": lambda: data[: len(data) // 2],
            "empty": lambda: b"",
            "longer": lambda: data + b"\0",
        }[how]()
    )
    assert path.read_bytes() != data


HOWS = [
    "length",
    "header",
    "round",
    "rows",
    "data",
    "last byte",
    "checksum",
    "arrays' checksum",
    "half",
    "empty",
    "longer",
    "gone",
]


def copied(whole, tmp_path) -> Path:
    return shutil.copytree(whole.folder, tmp_path / "copy")


def resumed(folder: Path, whole) -> list[str]:
    """Resumes in `folder`; what was said. The end must be that of the whole run, bit for bit."""
    heard = Heard()
    running.resume_experiment(folder, progress=heard)
    for name in ("model.safetensors", NEWEST, "plan.safetensors", "bundle/global.safetensors"):
        one, other = (safetensors.numpy.load_file(place / name) for place in (folder, whole.folder))
        assert one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one), name
    assert metrics(folder) == metrics(whole.folder)
    log = (folder / "run.log").read_text()
    damage = [line for line in heard.lines if "goes on" in line or "starts again" in line or "written again" in line]
    assert all(line in log for line in damage)
    return damage


@pytest.mark.parametrize("how", mostly_slow(HOWS, "data", "gone"))
def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it_and_the_end_is_the_same(whole, tmp_path, how):
    folder = copied(whole, tmp_path)
    spoil(folder / NEWEST, how)
    (line,) = resumed(folder, whole)
    assert str(folder / NEWEST) in line and f"goes on from {OLDER}" in line
    assert (folder / f"broken-{NEWEST}").exists() == (how != "gone")
    if how == "data":
        assert not resumed(folder, whole)  # mended: the next time nothing is said


def test_where_both_checkpoints_are_damaged_the_command_ends_in_words_and_touches_nothing(fedtier, whole, tmp_path):
    folder = copied(whole, tmp_path)
    for name in (NEWEST, OLDER):
        spoil(folder / name, "data")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for _ in range(2):  # the same refusal again, and no more
        code, out, err = fedtier("resume", folder)
        assert code == 2 and out == "" and "Traceback" not in err and "hint: " in err
        assert f"{NEWEST}: is damaged" in err and f"{OLDER}: is damaged" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    for name in (NEWEST, OLDER):  # what the hint says
        (folder / name).unlink()
    assert resumed(folder, whole) == ["there is no checkpoint: starts again from round 0"]


@pytest.mark.parametrize("how", mostly_slow(["digit", "line break", "cut", "half a line", "gone", "swapped"], "digit"))
def test_a_damaged_row_is_computed_again_where_an_older_checkpoint_is_before_it(whole, tmp_path, how):
    """The checkpoint before the last was written after three of the four rows."""
    folder = copied(whole, tmp_path)
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    if how == "digit":
        lines[3] = lines[3].replace(b'"round": 6', b'"round": 7')
    elif how == "line break":
        lines[3] = lines[3][:-1] + b"\r"
    elif how == "cut":
        del lines[3]
    elif how == "half a line":
        lines[3] = lines[3][:40]
    elif how == "swapped":
        lines[3] = lines[3].replace(b'"f1"', b'"f2"')
    path.write_bytes(b"".join(lines)) if how != "gone" else path.unlink()
    with pytest.raises(FedtierError, match=r"metrics\.jsonl") as refusal:
        RunFolder(folder).rows()  # a report refuses it too
    assert "fedtier resume" in str(refusal.value)
    if how == "gone":
        with pytest.raises(FedtierError, match=r"has 0 rows, the checkpoint was written after 4; .*has 0 rows"):
            running.resume_experiment(folder, progress=Progress())
        return
    (line,) = resumed(folder, whole)
    assert "metrics.jsonl" in line and f"goes on from {OLDER}" in line
    assert len(RunFolder(folder).rows()) == 4


def test_a_damaged_row_before_both_checkpoints_is_refused_by_its_number(fedtier, whole, tmp_path):
    folder = copied(whole, tmp_path)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round": 2', b'"round": 3'))
    code, out, err = fedtier("resume", folder)
    assert (
        code == 2 and out == "" and "metrics.jsonl, line 2: is damaged: its checksum does not hold" in err and "hint: " in err
    )
    code, out, err = fedtier("report", folder, "--out", tmp_path / "r.html")
    assert code == 2 and "metrics.jsonl, line 2" in err and not (tmp_path / "r.html").exists()


def test_a_damaged_plan_is_written_again(whole, tmp_path):
    folder = copied(whole, tmp_path)
    spoil(folder / "plan.safetensors", "data")
    (line,) = resumed(folder, whole)
    assert "plan.safetensors: is damaged" in line and "written again" in line


@pytest.mark.parametrize("how", ["header", "data", "last byte", "checksum", "half", "empty", "gone"])
@pytest.mark.parametrize("name", ["global.safetensors", "personal.safetensors"])
def test_a_damaged_bundle_gives_no_model(whole, tmp_path, name, how):
    from fedtier.experiments.bundle import Bundle

    folder = copied(whole, tmp_path)
    spoil(folder / "bundle" / name, how)
    with pytest.raises(FedtierError, match=name) as refusal:
        bundle = Bundle.load(folder)
        for client in bundle.clients:
            bundle.parameters(client)
    assert "hint: " in str(refusal.value)


def test_a_folder_of_before_there_were_checksums_is_resumed_with_a_warning(whole, tmp_path):
    folder = copied(whole, tmp_path)
    (folder / OLDER).unlink()
    path = folder / NEWEST
    with safetensors.safe_open(path, framework="numpy") as file:
        words = {k: v for k, v in file.metadata().items() if k not in ("header", "arrays", "stacked", "diverged")}
    path.write_bytes(safetensors.numpy.save(safetensors.numpy.load_file(path), metadata=words))
    rows = [line.rpartition(', "checksum"')[0] + "}\n" for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "metrics.jsonl").write_text("".join(rows))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert resumed(folder, whole) == []
    assert any("was written before files had checksums" in str(warning.message) for warning in found)
