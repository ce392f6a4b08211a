"""An admitted site that misbehaves in sixty ways: the model is the one without it, and the server takes no memory for it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import safetensors.numpy

from fedtier.protocol import letters
from fedtier.protocol.letters import Kind

from .federation import Federation, federation, model

pytestmark = [pytest.mark.flare, pytest.mark.slow]

HERE = Path(__file__).parent
HOSTILE = "site-2"
DEADLINE = 20.0  # seconds
QUIET = 60  # rounds
TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": QUIET, "participation": 1.0, "tau": 2.0, "eval_every": QUIET},
    "method": {"name": "scaffold"},
}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ")


def enough(quiet: Path) -> int:
    """Rounds in which every kind is tried: one a letter, and after each silence the site is not asked for a deadline."""
    first, *_, last = (json.loads(line)["seconds"]["run"] for line in (quiet / "metrics.jsonl").read_text().splitlines())
    return 150 + int(2.5 * DEADLINE * QUIET / (last - first))


def a_genuine_reply(made: Federation) -> Path:
    """The body of what an honest third site would say; from here on one that is rehearsed declines."""
    made.rehearse(made.configure("short", {"method": TABLES["method"], "run": {"rounds": 1}}), "short")
    (memory,) = (made.root / "short/state" / HOSTILE).rglob("memory.safetensors")
    kept = [array.tobytes() for name, array in safetensors.numpy.load(memory.read_bytes()).items() if name.startswith("past.")]
    (body,) = (body for head, body, _ in (letters.unpack(one, len(one)) for one in kept) if head.kind == Kind.REPLY)
    path = made.root / "reply"
    path.write_bytes(body)
    file = made.root / "data" / f"{HOSTILE}.toml"
    file.write_text(file.read_text() + "participation = 0.0\n")
    return path


@contextmanager
def peak(made: Federation, place: str) -> Iterator[dict[str, int]]:
    """The largest resident memory, together, of the processes of a party meanwhile."""
    found, over = {"bytes": 0}, threading.Event()

    def look() -> None:
        processes: list[psutil.Process] = []
        while not over.wait(0.2 if len(processes) >= 2 else 1.0):
            processes = processes if len(processes) >= 2 else made.marked(place)
            sizes = []
            for process in list(processes):
                try:
                    sizes.append(process.memory_info().rss)
                except psutil.Error:
                    processes.remove(process)
            found["bytes"] = max(found["bytes"], sum(sizes))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def test_an_admitted_site_that_misbehaves_in_every_way_changes_nothing_and_costs_no_memory(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with federation(tmp_path, TABLES) as made:
        hostile = {
            "PYTHONPATH": str(HERE / "hooks"),
            "HOSTILE_EXECUTOR": str(HERE / "misbehaviour.py"),
            "MISBEHAVE_KIT": str(made.root / "kits" / HOSTILE),
            "MISBEHAVE_REPLY": str(a_genuine_reply(made)),
            "MISBEHAVE_LATE": str(DEADLINE + 1),
        }
        for site in made.sites[:2]:
            made.join(site)
        peaks, rounds = [], QUIET
        for name, more in (("quiet", {}), ("loud", {"MISBEHAVE_LOG": str(made.root / "tried.jsonl")})):
            tables = {"method": TABLES["method"], "run": {"rounds": rounds, "eval_every": rounds}}
            run = made.configure(name, tables, quorum=0.5, deadline=DEADLINE)
            made.join(HOSTILE, hostile | more)
            with peak(made, f"runs/{name}") as memory:
                folder = made.play(run, f"runs/{name}")
            peaks.append(memory["bytes"])
            made.processes[HOSTILE].terminate()
            made.processes[HOSTILE].wait(60)
            rounds = enough(folder)
        expected = model(made.rehearse(run, "calm"))

    tried = [json.loads(line) for line in (made.root / "tried.jsonl").read_text().splitlines()]
    record_property("kinds", len(tried))
    record_property("megabytes", [round(size / 1e6) for size in peaks])
    assert len(tried) >= 50 and not [one for one in tried if one["trouble"]]
    loud = json.loads((folder / "sites.json").read_text())["sites"]
    for site in made.sites[:2]:
        assert [loud[site][key] for key in ("silent", "declined", "refused")] == [0, 0, 0]
    np.testing.assert_array_equal(model(folder), expected)
    assert loud[HOSTILE]["counted"] == 0 and loud[HOSTILE]["refused"] >= 40
    log = (folder / "run.log").read_text()
    assert all(STAMP.match(line) for line in log.splitlines()) and not set("\x1b\x07\x00\r\u202e") & set(log)
    assert not [line for line in log.splitlines() if STAMP.sub("", line, count=1).startswith(("site-0:", "site-1:"))]
    assert "not read" in log and peaks[1] - peaks[0] < 100e6, peaks
