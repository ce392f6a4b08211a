"""A federation's run folder, watched while one site is refused and one is silent."""

import json
from pathlib import Path

import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import open_site
from fedtier.experiments import config as configuration
from fedtier.protocol import letters
from fedtier.protocol.letters import Kind
from fedtier.protocol.signatures import opened
from fedtier.reports.live import sites as live_sites
from fedtier.reports.live.sites import Event, Heard, read_log, read_record, standing
from fedtier.reports.live.verdict import exit_status, status_of
from fedtier.reports.live.watched import Watched

from ..protocol.sealed import House
from .test_wire import QUIET, SETTINGS, export_rows


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> dict:
    """Four sites with signed letters: site-1 answers rounds with garbage, site-2 says nothing from round 3 on. What is seen in
    round 5 and at the end."""
    folder = tmp_path_factory.mktemp("federation")
    calm = ["run.participation=1", "run.dropouts=0", "run.stragglers=0", "method.name=fedavg", "run.tau=1", "run.eval_every=2"]
    export_rows(configuration.load_config(None, [*SETTINGS, *calm]), folder / "fed")
    house, members, seen = House(folder / "keys"), {}, []
    for k in range(4):
        house.site(k)
        key = folder / "keys" / f"site-{k}-1.0.json"
        members[f"site-{k}"] = open_site(folder / "fed" / f"site-{k}.toml", folder / "state" / str(k), key)

    def ask(sent, seconds):
        heads = {site: letters.unpack(text := opened(own), len(text))[0] for site, own in sent.own.items()}
        head = next(iter(heads.values()))
        if head.kind == Kind.ROUND and head.round == 5:
            seen.append(Watched(folder / "wire").look())
        gone = {"site-2"} if head.round >= 3 else set()
        replies = {name: members[name].answer(sent.whole(name)) for name in heads.keys() - gone}
        return replies | ({"site-1": b"garbage"} if head.kind == Kind.ROUND and "site-1" in heads else {})

    serve_rounds(folder / "fed" / "run.toml", folder / "wire", ask, progress=QUIET, seal=house.server())
    return {"middle": seen[0], "end": Watched(folder / "wire").look(), "folder": folder / "wire"}


@pytest.mark.slow
def test_who_is_refused_and_who_is_silent_is_told_with_the_reason(watched):
    (run,) = watched["middle"].runs
    found = {site.name: site for site in run.clients}
    assert run.between_sites and (run.phase, run.round, run.rounds) == ("running", 5, 8)
    assert {name: site.standing for name, site in found.items()} == {
        "site-0": "answered", "site-1": "refused", "site-2": "silent", "site-3": "answered",
    }  # fmt: skip
    assert found["site-1"].why.startswith("round 4: ") and (found["site-0"].why, found["site-0"].last) == ("", 4)
    assert (found["site-2"].why, found["site-2"].last) == ("silent in round 3", 2)


@pytest.mark.slow
def test_a_site_that_is_away_is_the_exit_status_while_the_run_goes_on_and_not_after_it(watched):
    assert exit_status(watched["middle"]) == 4
    assert watched["end"].runs[0].phase == "finished" and exit_status(watched["end"]) == 0


@pytest.mark.slow
def test_counts_and_scores_are_those_of_the_servers_files(watched):
    (run,) = watched["end"].runs
    told = json.loads((watched["folder"] / "sites.json").read_text())["sites"]
    scores = json.loads((watched["folder"] / "clients.json").read_text())[0]
    for k, site in enumerate(run.clients):
        counts = told[site.name]
        assert (site.counted, site.refused) == (counts["counted"], counts["refused"])
        assert site.personal == (None if scores["personal"][k] is None else pytest.approx(scores["personal"][k], rel=1e-3))
    assert run.clients[0].counted == 8 and run.clients[1].refused == 8 and run.clients[1].counted == 0
    strip = [value is not None for value in run.clients[2].strip]
    assert run.evaluations == [0, 2, 4, 6, 8] and strip == [True, True, False, False, False]


# -- what the log and the record say, line by line

NAMES = ("north", "south", "west")
STAMP = "2026-01-02T03:04:05+00:00"


def line(way: str, who: str, kind: str, number: int, second: int) -> str:
    return json.dumps(
        {"way": way, "who": who, "kind": kind, "round": number, "time": f"2026-01-02T03:04:{second:02}.000+00:00"}
    )


def test_the_log_tells_the_latest_of_each_site_and_whom_the_start_waits_for():
    events, awaited = read_log(
        [
            f"{STAMP} 1 of 3 sites are there, waiting for north, west",
            f"{STAMP} north: refused: its hello: rows do not fit",
            f"{STAMP} north: silent in round 7",
            f"{STAMP} west: refused: round 3: reply: is not a message: west: silent in round 9",
            f"{STAMP} stranger: silent in round 1",
            "",
        ],
        NAMES,
    )
    assert awaited == {"north", "west"}
    assert {name: (event.standing, event.round) for name, event in events.items()} == {
        "north": ("silent", 7), "west": ("refused", 3),
    }  # fmt: skip
    assert (
        read_log([f"{STAMP} 1 of 3 sites are there, waiting for north", f"{STAMP} 3 of 3 sites are there"], NAMES)[1] == set()
    )


def heard(*record: str, last: int = -1, **events: Event) -> Heard:
    counts = {name: {"rows": 10, "last": last} for name in NAMES}
    return Heard(counts, events, frozenset(), read_record(record))


def test_the_record_tells_who_is_late_before_the_deadline_and_not_before_a_round_usually_takes():
    found = heard(
        line("out", "north", "ROUND", 4, 10), line("in", "north", "REPLY", 4, 12), line("out", "north", "ROUND", 5, 13)
    )
    asked = found.posts["north"].asked_at
    assert standing("north", found, 5, 2.0, asked + 4).standing == "answered"  # rounds take 2 s: patience
    assert standing("north", found, 5, 20.0, asked + 40).standing == "answered"
    late = standing("north", found, 5, 2.0, asked + 8)
    assert late.standing == "late" and late.why == "asked for round 5 at 03:04:13 UTC, no answer yet" and late.last == 4


def test_a_site_that_came_back_has_answered_and_one_that_did_not_is_silent_still():
    silent = Event("silent", 3, "silent in round 3", live_sites.moment(STAMP))
    assert standing("north", heard(last=2, north=silent), 6, None, 0.0).standing == "silent"
    assert standing("north", heard(last=5, north=silent), 6, None, 0.0).standing == "answered"
    back = heard(line("out", "north", "ROUND", 4, 10), line("in", "north", "REPLY", 4, 12), last=2, north=silent)
    assert standing("north", back, 5, None, back.posts["north"].asked_at).standing == "answered"
    refused = silent._replace(standing="refused", round=4, why="round 4: too large")
    assert standing("north", back._replace(events={"north": refused}), 5, None, 0.0).why == "round 4: too large"


def test_who_was_not_asked_and_who_declined_are_told():
    found = heard(
        line("out", "north", "ROUND", 4, 10), line("in", "north", "DECLINED", 4, 11), line("out", "west", "ROUND", 3, 8),
        line("in", "west", "REPLY", 3, 9), "{broken", '{"way": "cut", "bytes": 3}',
    )  # fmt: skip
    assert standing("north", found, 5, None, found.posts["north"].asked_at).standing == "declined"
    assert standing("west", found, 5, None, 0.0) == ("not asked", "not in round 4", 3)
    greeted = Heard({}, {}, frozenset(), read_record([line("in", "north", "WELCOME", 0, 1)]))
    assert standing("north", greeted, 0, None, 0.0).standing == "not asked"
    strangers = Heard({}, {}, frozenset({"north"}), read_record([]))
    assert standing("north", strangers, 0, None, 0.0) == standing("west", strangers, 0, None, 0.0)
    assert standing("west", strangers, 0, None, 0.0) == ("missing", "has not answered yet", None)


def test_without_rounds_a_site_with_an_old_task_is_at_work_and_its_staleness_is_told():
    found = heard(
        line("out", "west", "ROUND", 3, 8), line("out", "north", "ROUND", 4, 10), line("in", "north", "REPLY", 4, 12), last=1
    )
    assert standing("west", found, 5, 0.1, found.posts["west"].asked_at + 60).standing == "not asked"
    counts = {name: {**told, "staleness": 1.5, "stalest": 3} for name, told in found.counts.items()}
    found = found._replace(counts=counts)
    asked = found.posts["west"].asked_at
    assert standing("west", found, 5, 0.1, asked + 60) == ("working", "on round 3 since 03:04:08 UTC", 1)
    assert standing("north", found, 5, 0.1, asked + 60).standing == "answered"


def test_a_folder_that_waits_for_its_first_site_is_a_run_that_starts(tmp_path: Path):
    import fcntl

    (tmp_path / "run" / "flare").mkdir(parents=True)
    with open(tmp_path / "run" / "flare" / "supervisor.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (run,) = Watched(tmp_path / "run").look().runs
    assert (run.phase, run.title) == ("starting", "waiting for the first site") and status_of(run) == 0
