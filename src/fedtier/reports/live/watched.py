"""A folder that is watched: a run's, a store of many, or that of a run between sites, summarised at each look."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import FedtierError, positive, require
from ...experiments.config import read_written
from ...experiments.metric_row import Row
from ...experiments.metrics import evenly_spaced
from ...experiments.record import MOST_BY_CLIENT
from ...experiments.run_folder import DIVERGED_FILE, LABELS_FILE, RunFolder
from ...experiments.tables import Config
from ..load_runs import at, runs_in, title_of
from . import simulated, sites
from .certificates import certificates, ends_soon
from .files import Cache, header_words, is_held, modified, read_object, signature, tail_lines
from .state import (
    DAMAGED,
    DIVERGED,
    FINISHED,
    GOES_ON,
    RUNNING,
    STALLED,
    STANDINGS,
    STARTING,
    STOPPED,
    Client,
    Run,
    State,
)  # fmt: skip

STRIP = 48  # cells of a strip: evaluations, evenly spaced where there are more
DETAILED = 4  # runs of a store that are told with their clients
MOST_RUNS = 300  # of a store
LOG_LINES = 12
LATEST = 6  # evaluations from which the time a round is taken
QUIET = 300.0  # seconds without a new row or checkpoint after which a run counts as stalled ...
LONGER = 5.0  # ... or so many times the longest stretch between two evaluations
CHECKPOINT = "checkpoint.safetensors"
SUPERVISOR = ("flare", "supervisor.lock")  # held by `fedtier serve` also while no job runs


class Watched:
    """Reads the folder at each `look`; keeps what it read of files that stay as they are."""

    def __init__(self, folder: Path, stalled_after: float | None = None) -> None:
        require(folder.is_dir(), "FOLDER", str(folder), "is no folder", "give a run's folder, or one with runs in it")
        if stalled_after is not None:
            positive("--stalled-after", stalled_after)
        self.folder, self.stalled_after, self.cache = folder, stalled_after, Cache()

    def look(self) -> State:
        """What can be said now."""
        folders = [self.folder] if is_run(self.folder) else runs_in(self.folder)
        folders.sort(key=lambda one: modified(one / "metrics.jsonl", one / "config.toml") or 0.0, reverse=True)
        runs = [self._run(folder) for folder in folders[:MOST_RUNS]]
        runs.sort(key=lambda run: run.phase not in GOES_ON)  # a stable sort: the latest first within each
        told = [run if k < DETAILED else run._replace(clients=[], evaluations=[], log=[]) for k, run in enumerate(runs)]
        return State(self.folder.resolve().name, told, max(0, len(folders) - MOST_RUNS))

    def _run(self, folder: Path) -> Run:
        name = folder.resolve().name if folder == self.folder else folder.relative_to(self.folder).as_posix()
        try:
            return _Look(folder, name, self.cache, self.stalled_after).run()
        except FedtierError as error:
            return _blank(name, folder.resolve().name, DAMAGED, str(error))
        except (KeyError, TypeError, IndexError) as error:  # a row of a version that wrote other rows
            return _blank(name, folder.resolve().name, DAMAGED, f"the run's rows cannot be read: {error!r}")


def is_run(folder: Path) -> bool:
    """Whether the folder itself is a run's, also one between sites that waits for its first site."""
    return any((folder / mark).exists() for mark in ("config.toml", "wire.json", SUPERVISOR[0]))


def holds_runs(folder: Path) -> bool:
    """Whether the folder is a run's or has runs in it; a kit is not and has none."""
    return folder.is_dir() and not (folder / "kit.json").exists() and (is_run(folder) or bool(runs_in(folder)))


class _Look:
    """One run, now."""

    def __init__(self, folder: Path, name: str, cache: Cache, stalled_after: float | None) -> None:
        self.folder, self.name, self.cache, self.stalled_after = folder, name, cache, stalled_after
        self.now = time.time()
        there = (folder / "config.toml").exists()
        self.config = cache.get("config", folder / "config.toml", read_written) if there else None
        rows: Sequence[Row] = cache.get("rows", folder / "metrics.jsonl", lambda path: RunFolder(path.parent).rows())
        self.rows = sorted(rows, key=lambda row: (row["round"], row["seed"]))
        self.sites: list[str] = cache.get("wire", folder / "wire.json", read_object).get("sites", [])
        self.mark = cache.get("checkpoint", folder / CHECKPOINT, header_words)
        first = min((row["seed"] for row in self.rows), default=0)
        self.of_first_seed = [row for row in self.rows if row["seed"] == first]
        self.measure = "rmse" if any("global_rmse" in row for row in self.rows[:1]) else "accuracy"

    def run(self) -> Run:
        pace, reached, rounds = self._pace(), self._reached(), self.config.run.rounds if self.config else None
        phase, why = self._phase()
        shown = certificates(self.folder, self.cache)
        last = self.rows[-1] if self.rows else {}
        personal, on_clients = (self._mean((key, "mean")) for key in self._keys())
        chosen = self._evaluations()
        clients, in_all = self._clients(chosen, reached, pace)
        left = pace * (rounds - reached) if pace is not None and rounds is not None and phase == RUNNING else None
        return Run(
            self.name, self._title(), bool(self.sites), phase, why, reached, rounds, self.measure,
            self._mean((f"global_{self.measure}",)), self._mean(("global_loss",)), personal, _minus(personal, on_clients),
            self._mean(("epsilon",)), last.get("bytes_down", 0), last.get("bytes_up", 0), last.get("local_steps", 0),
            max([float(self.mark.get("seconds", 0.0)), at(dict(last), ("seconds", "run")) or 0.0]), pace, left,
            self._progressed(), [row["round"] for row in chosen], clients, in_all,
            tail_lines(self.folder / sites.LOG_FILE)[-LOG_LINES:], ends_soon(shown, self.now),
            {party: said["until"] for party, said in shown.items() if said.get("until")},
        )  # fmt: skip

    def _keys(self) -> tuple[str, str]:
        """(of the personal models, of the global model on the same rows)."""
        return ("personal_accuracy", "global_on_clients") if self.measure == "accuracy" else (
            "personal_rmse", "global_rmse_on_clients",
        )  # fmt: skip

    def _title(self) -> str:
        label = self.cache.get("labels", self.folder / LABELS_FILE, read_object)
        config = self.config
        if config is None:
            return "waiting for the first site"
        method = label.get("method") or title_of(config.method.name)
        if label.get("setting"):
            return f"{method}, {label['setting']}"
        return f"{method} on {config.data.title}" + (f" between {len(self.sites)} sites" if self.sites else "")

    def _mean(self, path: tuple[str, ...]) -> float | None:
        """Over the seeds that have the latest row."""
        newest = [row for row in self.rows if row["round"] == self.rows[-1]["round"]]
        found = [at(dict(row), path) for row in newest]
        numbers = [value for value in found if isinstance(value, int | float)]
        return float(np.mean(numbers)) if numbers else None

    def _points(self) -> list[tuple[int, float]]:
        """(rounds done, seconds) at the evaluations and at the checkpoint, where that is further."""
        points = [(row["round"], row["seconds"]["run"]) for row in self.of_first_seed]
        mark = int(self.mark.get("round", -1)), float(self.mark.get("seconds", 0.0))
        return [*points, mark] if points and mark[0] > points[-1][0] else points

    def _reached(self) -> int:
        points = self._points()
        return points[-1][0] if points else 0

    def _pace(self) -> float | None:
        points = self._points()[-LATEST:]
        if len(points) < 2 or points[-1][0] <= points[0][0] or points[-1][1] < points[0][1]:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def _progressed(self) -> float | None:
        return modified(*(self.folder / name for name in ("metrics.jsonl", CHECKPOINT, "config.toml", "wire.json")))

    def _phase(self) -> tuple[str, str]:
        """Where the run stands, and why it does not simply run. The files of its end say that it is over; else the lock says
        whether some process is at it, and the youngest row or checkpoint, whether it gets on."""
        diverged = self.cache.get("diverged", self.folder / DIVERGED_FILE, read_object)
        if diverged:
            return DIVERGED, f"between rounds {diverged.get('after')} and {diverged.get('by')}: {diverged.get('why')}"
        if signature(self.folder / "clients.json") is not None:
            return FINISHED, ""
        if not any(is_held(lock) for lock in (self.folder / "lock", self.folder.joinpath(*SUPERVISOR))):
            again = "`fedtier serve` with the same folder" if self.sites else "`fedtier resume`"
            return STOPPED, f"no process is at it; {again} goes on"
        quiet, limit = self.now - (self._progressed() or self.now), self._limit()
        if quiet > limit:
            return STALLED, f"no new row and no checkpoint for more than {limit:.0f} s"
        return (RUNNING if self.rows else STARTING), ""

    def _limit(self) -> float:
        if self.stalled_after is not None:
            return self.stalled_after
        ends = [seconds for _, seconds in self._points()]
        longest = max((b - a for a, b in itertools.pairwise(ends)), default=0.0)
        return max(QUIET, LONGER * longest)

    def _evaluations(self) -> list[Row]:
        rows = self.of_first_seed
        return [rows[k] for k in evenly_spaced(len(rows), STRIP)]

    def _clients(self, chosen: Sequence[Row], reached: int, pace: float | None) -> tuple[list[Client], int]:
        """(the clients whose scores the rows have, how many clients there are)."""
        names = self.sites or self.cache.get("names", self.folder / "partition.json", read_object).get("names", [])
        numbers = who_is_told(len(names), self.config)
        strips = _strips(chosen, len(numbers))
        latest = chosen[-1].get("by_client", {}) if chosen else {}
        scores = _Scores(*(latest.get(kind, [None] * len(numbers)) for kind in ("personal", "global")))
        told = self._between_sites(names, reached, pace) if self.sites else self._simulated(numbers, reached)
        return [
            told[int(i)]._replace(
                name=str(names[i]), personal=scores.personal[k], shared=scores.shared[k],
                gap=_minus(scores.personal[k], scores.shared[k]), strip=strips[k],
            )
            for k, i in enumerate(numbers)
        ], len(names)  # fmt: skip

    def _simulated(self, numbers: np.ndarray, reached: int) -> dict[int, Client]:
        plan = self.cache.get("plan", self.folder / simulated.PLAN_FILE, simulated.read_plan)
        done = simulated.parts(plan, numbers, reached)
        return {i: _client(p.standing, p.why, p.last, p.counted, p.silent, None, None) for i, p in done.items()}

    def _between_sites(self, names: Sequence[str], reached: int, pace: float | None) -> dict[int, Client]:
        heard = sites.hear(self.folder, names, self.cache)
        out = {}
        for i, name in enumerate(names):
            found, counts = sites.standing(name, heard, reached, pace, self.now), heard.counts.get(name, {})
            told = (counts.get(key) for key in ("counted", "silent", "declined", "refused"))
            out[i] = _client(found.standing, found.why, found.last, *told)._replace(staleness=counts.get("staleness"))
        return out


class _Scores(NamedTuple):
    personal: Sequence[float | None]
    shared: Sequence[float | None]


def who_is_told(clients: int, config: Config | None) -> np.ndarray:
    """The numbers of the clients whose scores stand in the rows, in their order."""
    evaluated = evenly_spaced(clients, config.run.eval_clients if config else clients)
    return evaluated[evenly_spaced(len(evaluated), MOST_BY_CLIENT)]


def _strips(chosen: Sequence[Row], count: int) -> list[list[float | None]]:
    """For each client the scores of its personal model, or of the global one where the method has no personal models."""
    lists = [row.get("by_client", {}) for row in chosen]
    kind = "personal" if any("personal" in one for one in lists) else "global"
    table = [one.get(kind, [None] * count) for one in lists]
    return [[scores[k] if k < len(scores) else None for scores in table] for k in range(count)]


def _client(
    standing: str,
    why: str,
    last: int | None,
    counted: int | None,
    silent: int | None,
    declined: int | None,
    refused: int | None,
) -> Client:
    assert standing in STANDINGS
    return Client("", standing, why, last, counted, silent, declined, refused, None, None, None, [])


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _blank(name: str, title: str, phase: str, why: str) -> Run:
    return Run(
        name, title, False, phase, why, 0, None, "accuracy", None, None, None, None, None, 0, 0, 0, 0.0, None, None, None,
        [], [], 0, [], [], {},
    )  # fmt: skip
