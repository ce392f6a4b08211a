"""The files of a run between sites, damaged at the server: the same model and a line that says so, or an end in words."""

import json
import shutil

import numpy as np
import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.errors import FedtierError
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.stopping import Stopped
from fedtier.protocol import loopback

from ..small_runs import first_slow, metrics
from .test_wire import between, model, setup, sites

pytestmark = pytest.mark.slow  # each needs a run between sites

NEWEST, OLDER = "checkpoint.safetensors", "previous-checkpoint.safetensors"
EVERY = ["run.eval_every=1", "run.rounds=6", "run.dropouts=0", "method.name=scaffold"]


def closed(members):
    for site in members.values():
        site.close()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The whole run in `whole`, and in `wire` the same one stopped after four of six rounds."""
    folder = tmp_path_factory.mktemp("damage")
    setup(folder, *EVERY)
    members = sites(folder / "fed", "whole-state")
    between(folder / "fed", members, "whole")
    closed(members)
    polls, members = [0], sites(folder / "fed")

    def stopped():
        polls[0] += 1
        return polls[0] >= 4

    with pytest.raises(Stopped):
        between(folder / "fed", members, stopped=stopped)
    closed(members)
    return folder


@pytest.fixture
def folder(base, tmp_path):
    return shutil.copytree(base, tmp_path / "copy")


def goes_on(folder):
    members = sites(folder / "fed")
    try:
        return between(folder / "fed", members)
    finally:
        closed(members)


def refused(folder) -> str:
    """The words of a refusal, the same at the second attempt; no site is asked anything."""
    words = []
    for _ in range(2):
        with pytest.raises(FedtierError) as refusal:
            serve_rounds(folder / "fed" / "run.toml", folder / "wire", loopback({}), progress=Progress())
        words.append(str(refusal.value))
    assert words[0] == words[1] and "hint: " in words[0]
    return words[0]


def spoil(path, how):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    if how == "gone":
        path.unlink()
    elif how == "round":
        path.write_bytes(data.replace(b'"round":"4"', b'"round":"2"'))
    elif how == "data":
        path.write_bytes(data[: end + 40] + bytes([data[end + 40] ^ 1]) + data[end + 41 :])
    elif how == "header":
        path.write_bytes(data.replace(b'"shape"', b'"shapf"', 1))
    elif how == "digit":
        path.write_bytes(data.replace(b'"site-0"', b'"site-9"', 1))
    else:
        path.write_bytes(data[: len(data) // 2] if how == "half" else b"")
    assert how == "gone" or path.read_bytes() != data


def same(folder, base):
    """The models and rows are those of the whole run; the log."""
    assert np.array_equal(model(folder / "wire"), model(base / "whole"))
    assert metrics(folder / "wire") == metrics(base / "whole")
    return (folder / "wire" / "run.log").read_text()


@pytest.mark.parametrize("how", first_slow(["data", "header", "round", "half", "empty", "gone"]))
def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it_and_models_and_rows_are_the_same(folder, base, how):
    """Rows too: the sites tell the scores of the round that is played again once more."""
    spoil(folder / "wire" / NEWEST, how)
    goes_on(folder)
    assert f"goes on from {OLDER}" in same(folder, base)


@pytest.mark.parametrize("how", first_slow(["digit", "half", "empty", "gone"]))
def test_what_wire_json_said_is_taken_from_the_checkpoint(folder, base, how):
    before = (folder / "wire" / "wire.json").read_bytes()
    spoil(folder / "wire" / "wire.json", how)
    goes_on(folder)
    assert "wire.json: is damaged or gone; written again" in same(folder, base)
    assert json.loads((folder / "wire" / "wire.json").read_bytes()) == json.loads(before)


@pytest.mark.parametrize("how", first_slow(["half", "empty", "gone"]))
def test_the_table_of_sites_is_written_again(folder, base, how):
    spoil(folder / "wire" / "sites.json", how)
    goes_on(folder)
    same(folder, base)
    found, whole = (json.loads((place / "sites.json").read_text())["sites"] for place in (folder / "wire", base / "whole"))
    assert found == whole


def test_a_damaged_row_is_left_out_and_the_model_is_the_same(folder, base):
    path = folder / "wire" / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round": 1', b'"round": 7', 1))
    goes_on(folder)
    assert np.array_equal(model(folder / "wire"), model(base / "whole"))
    assert "metrics.jsonl: lines 2 are damaged; goes on with" in (folder / "wire" / "run.log").read_text()
    wanted = [row for row in metrics(base / "whole") if row["round"] != 1]
    assert metrics(folder / "wire") == wanted and len(RunFolder(folder / "wire").rows()) == len(wanted)


def test_where_no_checkpoint_is_good_the_server_ends_in_words(folder):
    for how in ("data", "gone"):
        for name in (NEWEST, OLDER):
            spoil(folder / "wire" / name, how)
        words = refused(folder)
        assert NEWEST in words and ("is damaged" if how == "data" else "is gone") in words and "another --out" in words
    spoil(folder / "wire" / "wire.json", "half")
    assert "wire.json" in refused(folder)


def test_a_checkpoint_of_another_run_is_refused(folder):
    shutil.copy(folder / "whole" / NEWEST, folder / "wire" / NEWEST)
    assert "belongs to another run" in refused(folder)
