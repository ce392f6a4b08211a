"""The record of what came and went: any change of a kept line shows, a crash in the middle of a line does not break it."""

import hashlib
import json

import pytest

from fedtier.errors import FedtierError
from fedtier.protocol.record import FILE, START, Record, digest, verify_record


def fill(folder, count, **how):
    record = Record(folder, **how)
    for k in range(count):
        record.add(("in", {"kind": "ROUND", "round": k} | digest(b"%d" % k)), ("out", {"kind": "REPLY", "round": k}))
    return record


def test_each_line_has_the_hash_of_the_line_before_it_also_over_restarts(tmp_path):
    fill(tmp_path, 3)
    fill(tmp_path, 2)
    lines = (tmp_path / FILE).read_bytes().splitlines()
    before = START
    for number, line in enumerate(lines):
        said = json.loads(line)
        assert (said["line"], said["before"]) == (number, before)
        before = hashlib.sha256(line).hexdigest()
    assert json.loads(lines[0])["sha256"] == hashlib.sha256(b"0").hexdigest()
    assert verify_record(tmp_path) == (0, 10, 10, 0, before)


TOUCHED = {"changed": 5, "removed": 4, "put in": 5, "swapped": 4, "the first one's start": 1, "no JSON": 4, "cut short": 8}


@pytest.mark.parametrize("how", TOUCHED)
def test_a_line_that_is_touched_breaks_the_chain_and_is_named(fedtier, tmp_path, how):
    """Of eight lines; a changed one is noticed by the line after it, which holds its hash."""
    fill(tmp_path, 4)
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "changed":
        lines[3] = lines[3].replace(b'"round": 1', b'"round": 9')
    elif how == "removed":
        del lines[3]
    elif how == "put in":
        lines.insert(3, lines[3])
    elif how == "swapped":
        lines[3], lines[4] = lines[4], lines[3]
    elif how == "the first one's start":
        lines[0] = lines[0].replace(START.encode(), b"1" * 64)
    elif how == "cut short":
        lines[7] = lines[7][: len(lines[7]) // 2]
    else:
        lines[3] = b"what?\n"
    path.write_bytes(b"".join(lines))
    code, out, err = fedtier("record", tmp_path)
    assert code == 2 and out == "" and f"record.jsonl, line {TOUCHED[how]}: " in err and "hint: " in err


def test_a_whole_record_is_verified_with_exit_code_0_and_a_cut_at_a_lines_end_shows_in_the_last_hash(fedtier, tmp_path):
    fill(tmp_path, 4)
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in (8, 7):  # the chain alone cannot miss its end
        path.write_bytes(b"".join(lines[:kept]))
        code, out, _ = fedtier("record", tmp_path)
        assert code == 0 and f"{kept} lines from number 0 on" in out
        assert out.splitlines()[-1] == hashlib.sha256(lines[kept - 1][:-1]).hexdigest()


def test_a_line_that_a_crash_left_unfinished_is_cut_off_and_the_next_line_says_so(tmp_path):
    fill(tmp_path, 2)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes() + b'{"line": 4, "ti')
    fill(tmp_path, 1)
    said = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["way"] for line in said] == ["in", "out", "in", "out", "cut", "in", "out"] and said[4]["bytes"] == 15
    assert verify_record(tmp_path).lines == 7


def test_full_files_are_set_aside_the_oldest_go_and_the_chain_goes_on(tmp_path):
    fill(tmp_path, 200, most=2000, keep=3)
    aside = sorted(tmp_path.glob("record-*.jsonl"))
    assert len(aside) == 3 and all(2000 <= path.stat().st_size < 3000 for path in aside)
    found = verify_record(tmp_path)
    assert found.first > 0 and found.first + found.lines == 400
    fill(tmp_path, 1, most=2000, keep=3)
    assert verify_record(tmp_path).first + verify_record(tmp_path).lines == 402
    aside[0].write_bytes(aside[0].read_bytes()[:-10])
    with pytest.raises(FedtierError):
        verify_record(tmp_path)


def test_a_flood_of_refusals_adds_a_line_for_every_power_of_two(tmp_path):
    record = Record(tmp_path)
    for _ in range(1000):
        record.refuse(b"forged")
    counts = [json.loads(line)["count"] for line in (tmp_path / FILE).read_bytes().splitlines()]
    assert counts == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def test_a_record_that_cannot_be_gone_on_with_is_kept_and_the_new_one_begins_with_that(tmp_path):
    fill(tmp_path, 2)
    damaged = (tmp_path / FILE).read_bytes()[:-30] + b"x" * 29 + b"\n"
    (tmp_path / FILE).write_bytes(damaged)
    fill(tmp_path, 1)
    assert json.loads((tmp_path / FILE).read_bytes().splitlines()[0])["way"] == "broken"
    assert [path.read_bytes() for path in tmp_path.glob("broken-*")] == [damaged]
    assert verify_record(tmp_path).lines == 3


def test_a_line_that_does_not_fit_on_the_disk_leaves_the_record_as_it_was(tmp_path, monkeypatch):
    record = fill(tmp_path, 1)
    whole = (tmp_path / FILE).read_bytes()
    import os

    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("fedtier.protocol.record.os.write", lambda fd, data: write(fd, data[:7]))
        with pytest.raises(FedtierError, match="cannot be written"):
            record.add(("in", {}))
    assert (tmp_path / FILE).read_bytes() == whole
    record.add(("in", {}))
    assert verify_record(tmp_path).lines == 3


def test_a_folder_without_a_record_is_refused(tmp_path):
    with pytest.raises(FedtierError, match="holds no record"):
        verify_record(tmp_path)
