"""How a round and its start grow with the number of sites.

    python bench/sites.py processes 3 8 16          FLARE, every site in processes of its own, as `fedtier join` starts them
    python bench/sites.py light 3 16 64 256         beyond what two cores hold: 64 sites to a process, a TLS connection each
    python bench/sites.py light 64 256 --cohort 16  a cohort of 16 a round: not all need to answer

A light site is the real one (`deploy.site`): it solves and keeps its memory on disk. FLARE and the signatures are missing:
letters cross sockets of their own, as a length and the bytes, with one thread a site at the server as in FLARE's job.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

LENGTH = struct.Struct("<I")
ROUNDS = {"processes": 200, "light": 30}
QUIET = 50.0  # per cent of the processors: what sites that wait use, and no more
REST = 10.0  # seconds after a run, in which its sites begin to prepare for the next
TOGETHER = 64  # light sites in one process: a hundred compiled programs more, and Linux gives it no further piece of memory


class Measured(NamedTuple):
    sites: int
    first: float  # seconds from the start to the end of the first round
    round: float  # seconds of a round after that
    megabytes: float  # of the server's processes
    threads: int


def tables(sites: int, rounds: int, cohort: int) -> dict[str, Any]:
    rows = {"name": "synthetic", "clients": sites, "features": 64, "classes": 10, "rows": 40, "partition": "natural"}
    run = {"rounds": rounds, "participation": cohort / sites, "tau": 1.0, "eval_every": rounds}
    return {"data": rows, "run": run, "method": {"name": "fedavg"}}


# -- FLARE, processes


def processes(sites: int, cohort: int) -> tuple[Measured, float]:
    """Everything started at the same moment; and once more, when the sites wait quietly, the seconds to the first round."""
    from tests.flare.federation import federation, rounds_done

    def until(number: int, folder: Path) -> None:
        while rounds_done(folder) < number:
            time.sleep(0.1)

    with tempfile.TemporaryDirectory() as place, federation(Path(place), tables(sites, ROUNDS["processes"], cohort)) as made:
        run, clock = made.configure("run", {"method": {"name": "fedavg"}}), time.monotonic()
        made.serve(run, "runs/one")
        for site in made.sites:
            made.join(site)
        folder = made.root / "runs/one"
        until(1, folder)
        first = time.monotonic() - clock
        until(20, folder)
        at, clock = rounds_done(folder), time.monotonic()
        until(ROUNDS["processes"] - 20, folder)
        pace = (time.monotonic() - clock) / (rounds_done(folder) - at)
        ours = made.marked("runs/one")
        memory, threads = sum(p.memory_info().rss for p in ours) / 1e6, sum(p.num_threads() for p in ours)
        assert made.processes["server"].wait(300) == 0, made.said("server")
        time.sleep(REST)
        while psutil.cpu_percent(5.0) > QUIET:
            pass
        clock = time.monotonic()
        made.serve(made.configure("two", {"method": {"name": "fedavg"}}), "runs/two")
        until(1, made.root / "runs/two")
        again = time.monotonic() - clock
        made.processes["server"].wait(300)
    return Measured(sites, first, pace, memory, threads), again


# -- light sites


def certificate(folder: Path) -> None:
    words = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "crt.pem", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run(["openssl", "req", "-x509", *words], cwd=folder, check=True, capture_output=True)


def send(link: socket.socket, data: bytes) -> None:
    link.sendall(LENGTH.pack(len(data)) + data)


def take(link: socket.socket) -> bytes:
    return _whole(link, LENGTH.unpack(_whole(link, LENGTH.size))[0])


def _whole(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def be_sites(root: Path, port: int, numbers: range) -> None:
    """These light sites, in this process."""
    from fedtier.compilation import configure_jax
    from fedtier.deploy.site import open_site

    configure_jax()
    context = ssl.create_default_context(cafile=str(root / "crt.pem"))
    one_at_a_time = threading.Lock()  # as two cores do anyway

    def be(name: str) -> None:
        site = open_site(root / "data" / f"{name}.toml", root / "state" / name)
        link = context.wrap_socket(socket.create_connection(("localhost", port)), server_hostname="localhost")
        send(link, name.encode())
        try:
            while True:
                letter = take(link)
                with one_at_a_time:
                    reply = site.answer(letter)
                send(link, reply)
        except (EOFError, OSError):
            return

    threads = [threading.Thread(target=be, args=(f"site-{k}",)) for k in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def light(sites: int, cohort: int) -> Measured:
    """The server in this process."""
    from fedtier.compilation import configure_jax
    from fedtier.deploy.export import export_rows
    from fedtier.deploy.server import serve_rounds
    from fedtier.experiments import config as configuration
    from fedtier.experiments.progress import Progress
    from fedtier.protocol import Letters

    configure_jax()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(sites) as pool:
        root = Path(place)
        export_rows(configuration.validate(tables(sites, ROUNDS["light"], cohort)), root / "data")
        certificate(root)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(root / "crt.pem", root / "key.pem")
        listener, links, times = (
            socket.create_server(("localhost", 0), backlog=sites),
            dict[str, socket.socket](),
            list[float](),
        )
        clock = time.monotonic()
        words = [sys.executable, __file__, "be-sites", str(root), str(listener.getsockname()[1])]
        children = [
            subprocess.Popen([*words, str(first), str(min(first + TOGETHER, sites))]) for first in range(0, sites, TOGETHER)
        ]
        while len(links) < sites:
            link = context.wrap_socket(listener.accept()[0], server_side=True)
            links[take(link).decode()] = link

        def exchange(site: str, letter: bytes) -> bytes:
            send(links[site], letter)
            return take(links[site])

        def ask(letters: Letters, seconds: float) -> dict[str, bytes]:
            asked = {site: pool.submit(exchange, site, letters.whole(site)) for site in letters.own}
            replies = {site: future.result() for site, future in asked.items()}
            times.append(time.monotonic())
            return replies

        serve_rounds(root / "data/run.toml", root / "run", ask, progress=Progress())
        this = psutil.Process()
        found = Measured(sites, 0.0, 0.0, this.memory_info().rss / 1e6, this.num_threads())
        for link in links.values():
            link.close()
        listener.close()
        for child in children:
            child.wait(60)
    late = times[len(times) // 3 : -2]  # hello, the first evaluation and compilation come before, the last evaluation after
    return found._replace(first=times[2] - clock, round=(late[-1] - late[0]) / (len(late) - 1))


def exponent(found: list[Measured], key: str) -> float:
    """Of the last doubling or quadrupling: how fast it grows in the end."""
    few, many = found[-2:]
    return math.log(getattr(many, key) / getattr(few, key)) / math.log(many.sites / few.sites)


def one(kind: str, sites: int, cohort: int) -> None:
    if kind == "light":
        print(json.dumps([*light(sites, cohort), None]))
    else:
        measured, again = processes(sites, cohort)
        print(json.dumps([*measured, again]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["processes", "light"])
    parser.add_argument("sites", type=int, nargs="+")
    parser.add_argument("--cohort", type=int, default=0, help="sites that are asked in a round; 0: all")
    parser.add_argument("--one", action="store_true", help="in this process, as JSON")
    words = parser.parse_args()
    if words.one:
        one(words.kind, words.sites[0], words.cohort or words.sites[0])
        return
    found: list[Measured] = []
    print("| sites | start to first round | with the sites waiting | s a round | server's memory | its threads |")
    print("|---|---|---|---|---|---|")
    for sites in words.sites:
        line = [sys.executable, __file__, words.kind, str(sites), "--cohort", str(words.cohort), "--one"]
        done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
        *numbers, again = json.loads(done.stdout.splitlines()[-1])
        found.append(Measured(*numbers))
        _, first, pace, memory, threads = found[-1]
        waiting = "" if again is None else f"{again:.0f} s"
        print(f"| {sites} | {first:.0f} s | {waiting} | {pace:.4f} | {memory:.0f} MB | {threads} |", flush=True)
    if len(found) > 1:
        shown = ", ".join(f"{key} {exponent(found, key):.2f}" for key in ("first", "round", "megabytes", "threads"))
        print(f"\nexponents in the number of sites, last step: {shown}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["be-sites"]:
        be_sites(Path(sys.argv[2]), int(sys.argv[3]), range(int(sys.argv[4]), int(sys.argv[5])))
    else:
        main()
