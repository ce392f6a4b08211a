"""One sitting: contestants one after another, the fixed reference between them, one JSON line a repetition.

    python bench/run.py                                   all workloads, all peers, 3 repetitions
    python bench/run.py --workload W1 --peers fedtier numpy --repeat 5
    python bench/run.py --resume                          go on with the last sitting

A contestant that fails or takes too long is reported and skipped; what was measured stays. A peer that failed once is not
tried again on that workload in the same sitting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import BUILD, compile_all, description, reference
from roster import OURS, PEERS, Peer, prepare, python
from stored import DATA
from watch import watched
from workloads import WORKLOADS, Workload, refusal, workload

HERE = Path(__file__).parent
RESULTS = HERE / ".results"
LIMIT = 240  # seconds a repetition may take


def main() -> None:
    options = _options()
    chosen, peers = [workload(name) for name in options.workload], [_peer(name) for name in options.peers]
    compile_all()
    subprocess.run([sys.executable, str(HERE / "ours.py"), *options.workload], check=True, env=_environment(OURS))
    peers = _prepared(peers)
    RESULTS.mkdir(exist_ok=True)
    file = _file(options.resume)
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(line["workload"], line["peer"], line["repeat"]) for line in lines if "peer" in line}
    failed = {(line["workload"], line["peer"]) for line in lines if line.get("error")}
    if not lines:
        _append(file, {"machine": description(), "started": time.strftime("%Y-%m-%d %H:%M")})
    before = reference()
    for work, peer, repeat in _order(chosen, peers, options.repeat):
        if (work.name, peer.name, repeat) in done or (work.name, peer.name) in failed:
            continue
        line = play(work, peer)
        after = reference()
        line |= {"workload": work.name, "peer": peer.name, "repeat": repeat, "reference": [before, after]}
        _append(file, line)
        _say(line)
        if line.get("error"):
            failed.add((work.name, peer.name))
        before = after
    print(file)


def _order(chosen: list[Workload], peers: list[Peer], repeats: int) -> Iterator[tuple[Workload, Peer, int]]:
    """Every repetition visits all contestants, each time from another one on: no peer always follows the same one."""
    for work in chosen:
        able = [peer for peer in peers if work.name in peer.workloads.split()]
        for k in range(repeats):
            turn = k * max(1, len(able) // repeats) % max(1, len(able))
            for peer in able[turn:] + able[:turn]:
                yield work, peer, k


def play(work: Workload, peer: Peer) -> dict[str, Any]:
    """One repetition in a process of its own: the measurements, or the reason why there are none."""
    out = BUILD / "out.json"
    out.unlink(missing_ok=True)
    environment = _environment(peer.env) | {"BENCH_WORKLOAD": work.name, "BENCH_OUT": str(out)}
    if peer.threads:
        count = str(peer.threads)
        environment |= {"BENCH_THREADS": count, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
    command = [python(peer.env), *peer.launcher, str(HERE / "peers" / f"{peer.script}.py")]
    with (BUILD / "log.txt").open("w+") as log:
        environment["BENCH_START"] = repr(time.monotonic())
        status, peak = watched(command, environment, log, LIMIT)
        log.seek(0)
        last = _last_words(log.read())
    if status is None:
        return {"error": f"took more than {LIMIT} s", "log": last}
    if status != 0 or not out.exists():
        return {"error": f"exit status {status}: {last}"}
    return measures(work, json.loads(out.read_text())) | {"peak_mb": round(peak / 1e6)}


def _last_words(log: str) -> str:
    """The last line that says something (some end with a ruler), without paths of this machine."""
    lines = [line.strip() for line in log.replace(str(HERE), "bench").splitlines()]
    return next((line for line in reversed(lines) if any(map(str.isalpha, line))), "")


def measures(work: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """What the marks (rounds done, seconds since the start of the process) say."""
    at = dict(told["marks"])
    seconds = at[work.rounds] - at[work.warm]
    return told | {
        "first_round": told["marks"][0][1],
        "rounds_per_second": (work.rounds - work.warm) / seconds,
        "marks": [told["marks"][0], [work.warm, at[work.warm]], [work.rounds, at[work.rounds]]],
    }


def _prepared(peers: list[Peer]) -> list[Peer]:
    """The peers whose environment is there or could be made."""
    able = []
    for peer in peers:
        try:
            prepare(peer.env)
            able.append(peer)
        except subprocess.CalledProcessError as error:
            last = str(error.stderr or error).strip().splitlines()[-1]
            print(f"{peer.name}: left out, its environment could not be made: {last}", file=sys.stderr)
    return able


def _environment(env: str) -> dict[str, str]:
    paths = [str(HERE)]
    if env == OURS:
        paths.append(str(HERE.parent / "src"))
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OMP_NUM_THREADS", "XLA_FLAGS")}
    return kept | {"PYTHONPATH": os.pathsep.join(paths), "BENCH_BUILD": str(BUILD), "PYTHONWARNINGS": "ignore"}


def _file(resume: bool) -> Path:
    before = sorted(RESULTS.glob("*.jsonl"))
    if resume and before:
        return before[-1]
    return RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"


def _append(file: Path, line: dict[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def _say(line: dict[str, Any]) -> None:
    where = f"{line['workload']} {line['peer']} {line['repeat']}"
    if line.get("error"):
        print(f"{where}: {line['error']}", file=sys.stderr)
    else:
        speed, first, score = (line[key] for key in ("rounds_per_second", "first_round", "accuracy"))
        print(f"{where}: {speed:.2f} rounds/s, first after {first:.1f} s, accuracy {score:.4f}", file=sys.stderr)


def _peer(name: str) -> Peer:
    if name not in PEERS:
        raise ValueError(refusal("--peers", name, PEERS))
    return PEERS[name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(WORKLOADS), metavar="W")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), metavar="PEER")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions (3)")
    parser.add_argument("--resume", action="store_true", help="go on with the last sitting")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error(f"--repeat = {options.repeat}: must be a whole number of at least 1")
    if os.environ.get("FEDTIER_DATA") is None and not DATA.exists():
        print("FEDTIER_DATA is not set: MNIST and CIFAR-10 will be downloaded", file=sys.stderr)
    return options


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        raise SystemExit(str(error)) from None
