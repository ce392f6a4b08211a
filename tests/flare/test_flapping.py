"""A site that comes and goes: it is set aside and taken back, and the others play on in the same job."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fedtier.deploy.flare.patience import FIRST, FREE, WINDOW, Patience

from .federation import Federation, federation, rounds_done, until

pytestmark = pytest.mark.flare

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 100_000, "participation": 1.0, "tau": 1.0, "eval_every": 100_000},
    "method": {"name": "fedavg"},
}


def test_a_site_that_crashes_twice_is_waited_for_and_one_that_goes_on_is_set_aside_longer_each_time() -> None:
    said: list[str] = []
    patience, now = Patience(said.append), 0.0
    pauses = []
    for _ in range(FREE + 4):
        assert patience.asks("south", now)
        patience.came("south")
        for _ in range(3):  # the same loss, however often one asks
            patience.lost("south", now)
        pauses.append(patience.aside.get("south", now) - now)
        assert patience.asks("north", now)  # nobody else is
        now = max(now + 1, patience.aside.get("south", 0.0))
    assert pauses == [0.0, 0.0, FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    assert sum("set aside" in line for line in said) == 4 and all(line.startswith("south: ") for line in said)
    assert patience.asks("south", now + 3 * WINDOW)
    patience.came("south")
    patience.lost("south", now + 3 * WINDOW)  # after a calm time it starts from the beginning
    assert patience.asks("south", now + 3 * WINDOW)


class Hesitant(set[str]):
    """Between its answer and what follows from it, other threads have their turn."""

    def __contains__(self, site: object) -> bool:
        found = super().__contains__(site)
        time.sleep(0.01)
        return found


def test_one_loss_counts_once_however_many_threads_tell_it() -> None:
    """A method without rounds asks each site from a thread of its own."""
    patience = Patience()
    patience._answered = Hesitant({"south"})
    threads = [threading.Thread(target=patience.lost, args=("south", 0.0)) for _ in range(FREE + 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert patience.losses == {"south": [0.0]} and not patience.aside


def test_a_site_that_never_answered_is_not_lost_however_long_it_is_away() -> None:
    patience = Patience()
    for now in range(100):
        patience.lost("south", float(now))
    assert patience.asks("south", 100.0)


def test_a_site_without_the_job_gets_it_at_once_then_later_and_later() -> None:
    from fedtier.deploy.flare.rejoin import Turns  # nvflare is there where these tests run, not where they are collected

    turns = Turns()
    given = [now for now in range(200) if turns.take("south", float(now))]
    assert given == [0, 5, 15, 35, 75, 155] and turns.take("north", 3.0)


def kill(made: Federation, site: str) -> None:
    """The whole site, at once, as when its machine loses power."""
    made.processes[site].kill()
    for process in made.marked(f"state/{site}"):
        process.send_signal(signal.SIGKILL)
    made.processes[site].wait()


@pytest.mark.slow
def test_a_site_that_is_killed_again_and_again_stops_nobody_and_is_taken_back(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        folder = made.root / "runs/flap"
        made.serve(made.configure("run", {"method": TABLES["method"]}, quorum=0.5, deadline=5.0), "runs/flap")
        until(lambda: rounds_done(folder) >= 5, "a round")
        at = rounds_done(folder)
        for _ in range(3):
            kill(made, "site-2")
            made.join("site-2")
            time.sleep(5.0)
        assert rounds_done(folder) > at + 20
        until(lambda: last(folder, 2) > rounds_done(folder) - 50, "the site's replies, once it stays")
        assert made.said("server").count("submitted") == 1


def last(folder: Path, client: int) -> int:
    """The last round of the client that counted."""
    import safetensors.numpy

    return int(safetensors.numpy.load((folder / "checkpoint.safetensors").read_bytes())["last"][client])
