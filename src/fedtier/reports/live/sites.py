"""Who answers in a run between sites: from the counts in sites.json, the lines of run.log and, between machines, the record of
letters. The counts are as old as the last evaluation, log and record are not."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from .certificates import certificates, revoked_on
from .files import Cache, read_object, tail_lines
from .state import ANSWERED, DECLINED, LATE, MISSING, NOT_ASKED, REFUSED, SILENT, WORKING

COUNTS_FILE, LOG_FILE, RECORD_FILE = "sites.json", "run.log", "record.jsonl"
PATIENCE = 5.0  # seconds after which a site that was asked and has not answered is told to be late
SLOW = 3.0  # ... and so many times the usual length of a round
WAITING = re.compile(r"^\d+ of \d+ sites are there, waiting for (?P<names>.*)$")
SILENT_IN = re.compile(r"^silent in round (?P<round>\d+)$")
REFUSED_IN = re.compile(r"^refused: (?P<why>(?:(?:scores after )?round (?P<round>\d+): )?.*)$")


class Standing(NamedTuple):
    standing: str
    why: str
    last: int | None  # the last round, from 0, in which its reply counted or, by the record, came


class Event(NamedTuple):
    """A line of the log on one site."""

    standing: str
    round: int | None
    why: str
    time: float  # to the second


class Post(NamedTuple):
    """The latest letters to and from one site."""

    asked: int | None = None  # the round of the latest question
    asked_at: float = 0.0
    answered: int | None = None  # the round of the latest answer to one
    answered_at: float = 0.0
    kind: str = ""  # of that answer
    welcomed: bool = False  # it has answered a hello


class Heard(NamedTuple):
    """All that a folder says about its sites."""

    counts: Mapping[str, Mapping[str, Any]]  # numbers, all of them whole but the mean staleness
    events: Mapping[str, Event]  # the latest of each site
    awaited: frozenset[str]  # before the first round: sites that have not come yet
    posts: Mapping[str, Post]  # empty without a record
    certificates: Mapping[str, Mapping[str, Any]] = MappingProxyType({})  # until when they hold, and which were revoked

    @property
    def has_rounds(self) -> bool:
        """Without them each site works on a task of its own, whatever the others do."""
        return not any("stalest" in counts for counts in self.counts.values())


def hear(folder: Path, names: Sequence[str], cache: Cache) -> Heard:
    """Reads the folder's counts, log and record, as far as they have changed."""
    counts = cache.get("counts", folder / COUNTS_FILE, lambda path: read_object(path).get("sites", {}))
    events, awaited = cache.get("events", folder / LOG_FILE, lambda path: read_log(tail_lines(path), names))
    posts = cache.get("posts", folder / RECORD_FILE, lambda path: read_record(tail_lines(path)))
    return Heard(counts, events, awaited, posts, certificates(folder, cache))


def read_log(lines: Iterable[str], names: Sequence[str]) -> tuple[dict[str, Event], frozenset[str]]:
    """(the latest event of each site, the sites that the start still waits for)."""
    events: dict[str, Event] = {}
    awaited: frozenset[str] = frozenset()
    for line in lines:
        stamp, _, words = line.partition(" ")
        name, colon, said = words.partition(": ")
        waiting = WAITING.match(words)
        if waiting:
            awaited = frozenset(waiting["names"].split(", ")) & {*names}
        elif words.endswith(" sites are there"):
            awaited = frozenset()
        elif colon and name in names:
            silent, refused = SILENT_IN.match(said), REFUSED_IN.match(said)
            if silent:
                events[name] = Event(SILENT, int(silent["round"]), said, moment(stamp))
            elif refused:
                number = int(refused["round"]) if refused["round"] else None
                events[name] = Event(REFUSED, number, refused["why"], moment(stamp))
    return events, awaited


def read_record(lines: Iterable[str]) -> dict[str, Post]:
    """The latest question to each site, and its latest answer."""
    posts: dict[str, Post] = {}
    for line in lines:
        try:
            said = json.loads(line)
            way, who, kind, number, time = said["way"], said["who"], said["kind"], said["round"], moment(said["time"])
        except (ValueError, KeyError, TypeError):  # another kind of line, or the end of one
            continue
        post = posts.get(who, Post())
        if way == "out" and kind == "ROUND":
            posts[who] = post._replace(asked=number, asked_at=time)
        elif way == "in" and kind == "WELCOME":
            posts[who] = post._replace(welcomed=True)
        elif way == "in" and kind != "SCORES":
            posts[who] = post._replace(answered=number, answered_at=time, kind=kind)
    return posts


def standing(site: str, heard: Heard, reached: int, usual: float | None, now: float) -> Standing:
    """How a site stands after `reached` rounds, which usually take `usual` seconds each."""
    counts, event, post = heard.counts.get(site, {}), heard.events.get(site), heard.posts.get(site, Post())
    told = counts.get("last", -1)
    replied = post.answered if post.kind == "REPLY" and post.answered is not None else -1
    last = max(told, replied)
    known = last if last >= 0 else None
    if revoked := heard.certificates.get(site, {}).get("revoked"):
        return Standing(REFUSED, revoked_on(revoked), known)
    if event is not None and _stands(event, last, reached, post):
        return Standing(event.standing, event.why, known)
    there = counts.get("rows") or post.welcomed or post.answered is not None
    if not there or site in heard.awaited:
        return Standing(MISSING, "has not answered yet", known)
    if post.asked is None:
        return Standing(ANSWERED if known is not None else NOT_ASKED, "", known)
    if not heard.has_rounds and post.answered != post.asked:
        return Standing(WORKING, f"on round {post.asked} since {_hour(post.asked_at)}", known)
    latest = max((other.asked for other in heard.posts.values() if other.asked is not None), default=post.asked)
    if heard.has_rounds and post.asked < latest:
        return Standing(NOT_ASKED, f"not in round {latest}", known)
    if post.answered != post.asked and now - post.asked_at > max(PATIENCE, SLOW * (usual or 0.0)):
        return Standing(LATE, f"asked for round {post.asked} at {_hour(post.asked_at)}, no answer yet", known)
    if post.kind == "DECLINED":
        return Standing(DECLINED, f"took no part in round {post.answered}", known)
    return Standing(ANSWERED, "", known)


def _stands(event: Event, last: int, reached: int, post: Post) -> bool:
    """Whether the site's replies have not counted since the event."""
    if event.round is not None:
        return last <= event.round if event.standing == REFUSED else last < event.round
    if post.answered_at:
        return event.time >= int(post.answered_at) or post.kind != "REPLY"
    return last < reached - 1


def _hour(time: float) -> str:
    return f"{datetime.datetime.fromtimestamp(time, datetime.UTC):%H:%M:%S} UTC"


def moment(stamp: str) -> float:
    """Seconds since the epoch; 0 for what is no time."""
    try:
        return datetime.datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
