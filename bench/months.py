"""What grows over a long run between three sites on this machine: threads, memory, seconds a round, bytes on disk.

    python bench/months.py --rounds 20000        about a quarter of an hour on two cores; a line every twentieth of the way

Every process is a real one, over FLARE with mutual TLS, as `fedtier serve` and `fedtier join` start them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.flare.federation import Federation, federation, rounds_done

HEAD = "| rounds | s a round | server's job | FLARE's server | `serve` | a site's job | its solver | run folder | open files |"


def tables(rounds: int) -> dict[str, Any]:
    run = {"rounds": rounds, "participation": 1.0, "tau": 1.0, "eval_every": max(1, rounds // 20)}
    return {"data": {"name": "digits", "clients": 3, "alpha": 0.5}, "run": run, "method": {"name": "fedavg"}}


def one(processes: list[psutil.Process], fits: Callable[[str], bool]) -> psutil.Process:
    return next(process for process in processes if fits(" ".join(process.cmdline())))


def watched(made: Federation) -> list[psutil.Process]:
    server, site = made.marked("runs/long"), made.marked("state/site-0")
    return [
        one(server, lambda line: "runner_process" in line),
        one(server, lambda line: "flare.listener" in line),
        psutil.Process(made.processes["server"].pid),
        one(site, lambda line: "worker_process" in line),
        one(site, lambda line: "fedtier.deploy.site" in line),
    ]


def size(process: psutil.Process) -> str:
    return f"{process.num_threads()} threads, {process.memory_info().rss / 1e6:.0f} MB"


def stored(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def report(made: Federation, processes: list[psutil.Process], number: int, pace: float) -> None:
    sizes = " | ".join(map(size, processes))
    print(
        f"| {number:,} | {pace:.4f} | {sizes} | {stored(made.root / 'runs/long'):.1f} MB | {processes[0].num_fds()} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    rounds: int = parser.parse_args().rounds
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="fedtier-months-") as place, federation(Path(place), tables(rounds)) as made:
        for site in made.sites:
            made.join(site)
        folder = made.root / "runs/long"
        made.serve(made.configure("run", {"method": {"name": "fedavg"}}), "runs/long")
        while rounds_done(folder) < 100:
            time.sleep(0.5)
        processes = watched(made)
        print(f"{HEAD}\n|{'---|' * HEAD[1:].count('|')}")
        at, clock = rounds_done(folder), time.monotonic()
        while made.processes["server"].poll() is None and at < rounds:
            time.sleep(0.5)
            number = rounds_done(folder)
            if number >= min(at + rounds // 20, rounds - 5):
                report(made, processes, number, (time.monotonic() - clock) / (number - at))
                at, clock = number, time.monotonic()
                if number >= rounds - 5:
                    break
        made.processes["server"].wait(120)


if __name__ == "__main__":
    main()
