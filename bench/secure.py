"""What masked sums cost over NVIDIA FLARE: real federations on loopback, plain and masked runs beside each other.

    python bench/secure.py --sites 3 5 8 --rounds 10 --json build/secure.json

Softmax regression on digits, FedAvg; every party has the processes that it would have on its own machine. For each number of
sites runs take turns, plain, masked, plain, masked, in one federation. Seconds are from the first letter of a round to the
first of the next, by the server's record; round 0, in which cards are asked for, does not count. Bytes are those that
crossed, seals included. How far the two models are apart is told in steps of the masks' grid: each site rounds once a round,
by half a step at most.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.flare.federation import Federation, federation, model

from fedtier.protocol.secure.settings import Masking, default_threshold

OPENS = ("CARD", "SHARES", "ROUND")  # one of these is the first letter of a round
ROUNDS = (*OPENS, "UNMASK", "REPLY", "MASKING")  # what crosses in a round; greetings and scores are none
NAMES = ("plain", "masked")
RANGE = 16.0  # wire.range unless told


class Cost(NamedTuple):
    """Of one run, round 0 left out."""

    seconds: list[float]  # of each round
    down: float  # bytes of a site and round
    up: float


def tables(sites: int, rounds: int) -> dict[str, Any]:
    return {
        "data": {"name": "digits", "clients": sites, "alpha": 1.0},
        "run": {"rounds": rounds, "participation": 1.0, "local_steps": 2, "eval_every": rounds},
        "method": {"name": "fedavg"},
    }


def cost_of(folder: Path, sites: int) -> Cost:
    """From the server's record."""
    lines = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    begun: dict[int, datetime.datetime] = {}
    for line in lines:
        if line["way"] == "out" and (line.get("kind") in OPENS or line.get("kind") == "SCORE"):
            begun.setdefault(line["round"], datetime.datetime.fromisoformat(line["time"]))
    times = [begun[number] for number in sorted(begun)]  # the last one is that of the scores
    crossed = {
        way: sum(line["bytes"] for line in lines if line["way"] == way and line.get("kind") in ROUNDS and line["round"] > 0)
        for way in ("out", "in")
    }
    count = sites * (len(times) - 2)
    seconds = [(after - before).total_seconds() for before, after in itertools.pairwise(times[1:])]
    return Cost(seconds, crossed["out"] / count, crossed["in"] / count)


def turns(made: Federation, rounds: int, repeat: int) -> tuple[dict[str, list[Cost]], float]:
    """(what plain and masked runs cost, how far apart their models are)."""
    costs: dict[str, list[Cost]] = {name: [] for name in NAMES}
    for k in range(repeat):
        for name in NAMES:
            run = made.configure(name, {"method": {"name": "fedavg"}}, quorum=1.0, masked=name == "masked")
            folder = made.play(run, f"runs/{name}-{k}")
            costs[name].append(cost_of(folder, len(made.sites)))
    models = [model(made.root / f"runs/{name}-0") for name in NAMES]
    return costs, float(np.abs(models[0] - models[1]).max())


def measure(sites: int, rounds: int, repeat: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, federation(Path(folder), tables(sites, rounds)) as made:
        for site in made.sites:
            made.join(site)
        costs, apart = turns(made, rounds, repeat)
    found: dict[str, Any] = {"sites": sites, "rounds": rounds, "load before": load, "cores": len(os.sched_getaffinity(0))}
    for name, runs in costs.items():
        seconds = [one for run in runs for one in run.seconds]
        found[name] = {"least": min(seconds), "median": float(np.median(seconds)), "down": runs[0].down, "up": runs[0].up}
    grid = Masking(tuple(map(str, range(sites))), sites, default_threshold(sites), RANGE).check().grid
    return found | {
        "ratio of the least": found["masked"]["least"] / found["plain"]["least"],
        "ratio of the medians": found["masked"]["median"] / found["plain"]["median"],
        "steps apart": apart / grid.step,
    }


def row(found: dict[str, Any]) -> str:
    """A line of the table in docs/privacy.md."""
    plain, masked = (found[name] for name in NAMES)
    cells = [f"{found['sites']}"]
    cells += [f"{one['least']:.2f} ({one['median']:.2f})" for one in (plain, masked)]
    cells += [f"{found['ratio of the least']:.1f}"]
    cells += [f"{one['down']:,.0f}, {one['up']:,.0f}" for one in (plain, masked)]
    return "| " + " | ".join([*cells, f"{found['steps apart']:.1f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[3, 5, 8])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=2, help="runs of each kind, in turn")
    parser.add_argument("--json", type=Path, help="where the numbers go")
    given = parser.parse_args()
    print("| sites | plain, s a round | masked | ratio | plain, bytes down, up | masked | steps apart |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    every = []
    for sites in given.sites:
        every.append(measure(sites, given.rounds, given.repeat))
        print(row(every[-1]), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
