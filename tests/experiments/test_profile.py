"""A profile accounts for the whole life of the process, and its trace is what Perfetto reads."""

import itertools
import json
import subprocess
import sys
import time

import pytest

from fedtier.experiments.profile import PHASES, Profile

SETTINGS = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "run.rounds=6", "run.eval_every=2", "run.tau=1"]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """`fedtier run --profile --json` in a process of its own: (what it printed, its trace, its seconds)."""
    folder = tmp_path_factory.mktemp("profile") / "run"
    words = [part for setting in SETTINGS for part in ("--set", setting)]
    clock = time.perf_counter()
    command = [sys.executable, "-m", "fedtier", "run", *words, "--out", str(folder), "--profile", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - clock
    return json.loads(done.stdout), json.loads((folder / "trace.json").read_text()), seconds


@pytest.mark.slow
def test_the_phases_add_up_to_the_life_of_the_process(profiled):
    printed, _, seconds = profiled
    assert list(printed["profile"]) == list(PHASES)
    total = sum(printed["profile"].values())
    assert 0.7 * seconds < total <= seconds + 0.05  # what is left is the interpreter going down
    assert all(
        printed["profile"][phase] > 0 for phase in ("start-up", "data", "compile", "rounds", "evaluation", "checkpoints")
    )


@pytest.mark.slow
def test_the_trace_holds_one_event_for_each_stretch_and_evaluation_in_order(profiled):
    printed, trace, _ = profiled
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [e["args"]["note"] for e in events if e["name"] == "rounds"] == ["0 to 2", "2 to 4", "4 to 6"]
    assert [e["args"]["note"] for e in events if e["name"] == "evaluation"] == ["round 2", "round 4", "round 6"]
    for before, after in itertools.pairwise(events):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.2  # microseconds, rounded to a tenth
    assert {"pid", "tid", "ts", "dur", "name", "ph"} <= set(events[0])
    rounds = sum(e["dur"] for e in events if e["name"] == "rounds") / 1e6
    assert rounds == pytest.approx(printed["profile"]["rounds"], abs=1e-3)


def test_what_no_span_covers_is_other(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("fedtier.experiments.profile.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("fedtier.experiments.profile._process_age", lambda: 2.0)
    profile = Profile()
    profile.started()
    with profile.span("rounds"):
        now[0] += 0.5
    now[0] += 0.25
    found = profile.as_object()
    assert (found["start-up"], found["rounds"], found["other"], sum(found.values())) == (2.0, 0.5, 0.25, 2.75)
