"""Runs between sites over NVIDIA FLARE: configurations and run folders on this side, certificates and bytes on FLARE's.

`serve` and `join` are supervisors; the work is done in processes that they start: `serve_job` in FLARE's job at the server,
a site's solver at the sites. What those need to know comes through their environment, from their own machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...compilation import configure_jax
from ...errors import NOTHING, FedtierError, require
from ...experiments.comparison import cell_name
from ...experiments.progress import Progress
from ...experiments.run_folder import RunFolder
from ...experiments.session import Listen, Listener, Result, nobody
from ...experiments.stopping import Stopped
from ...experiments.toml import read_toml
from ...protocol import Ask, ServerSeal, read_identity
from ...reports.terminal import byte_size
from ...reports.tracking import in_background
from ...storage.files import make_private, private_files, write_whole
from ..extension import extend, is_longer
from ..rows import open_server
from ..server import serve_rounds
from ..settings import load_run_file
from . import serve as serving
from . import status as asking
from .authority import Kits, answer, check_party, check_sites, provision, revoke
from .budget import Rate
from .extra import need_flare
from .frames import on_the_wire
from .names import KEYS, NOTE, PLAY, RATE
from .requests import authority_fingerprint, make_request, take_answer
from .revocation import Revocations
from .supervise import tell
from .validity import revoked_file
from .workspace import read_kit

RUN_FILE, RUN_FOLDER = "FEDTIER_RUN_FILE", "FEDTIER_RUN_FOLDER"
EXCHANGES = 3  # of a masked round
FAILURE = "failure.txt"  # in the run's folder: why the run cannot go on, in words for people


def make_kits(file: Path, folder: Path, renew: tuple[str, ...]) -> Kits:
    """`fedtier provision`."""
    need_flare()
    return provision(check_sites(read_toml(file)), folder, renew)


def sign_requests(file: Path, folder: Path, requests: tuple[Path, ...]) -> tuple[Kits, dict[str, str], str]:
    """`fedtier provision --sign`: the kits, the requests' fingerprints by party, and the authority's."""
    need_flare()
    kits, prints = answer(check_sites(read_toml(file)), folder, requests)
    return kits, prints, authority_fingerprint(folder / kits.written[0])


def request_certificate(party: str, kit: Path, given: Path | None) -> str:
    """`fedtier request`: the fingerprint of the request, or with an answer that of the authority."""
    need_flare()
    check_party(party)
    if given is None:
        return make_request(party, kit, kit.with_name(f"{party}.request"))
    take_answer(party, kit, given)
    return authority_fingerprint(kit)


def revoke_parties(folder: Path, parties: tuple[str, ...]) -> Revocations:
    """`fedtier revoke`."""
    require(bool(parties), "PARTY", NOTHING, "must name at least one", "fedtier revoke north")
    return revoke(folder, parties)


def serve_run(kit_folder: Path, run_file: Path, out: Path | None, listen: Listen = nobody) -> Result:
    """`fedtier serve`: the finished run; Stopped when a signal came first. A listener hears of each row in a thread of the
    supervisor: one that fails or hangs holds up neither the rounds nor the end."""
    need_flare()
    kit, run = read_kit(kit_folder, "server"), load_run_file(run_file)
    for site in run.wire.sites:
        require(site in kit.sites, "wire.sites", site, "has no kit", f"the kits are for {', '.join(kit.sites)}")
    experiment, _ = open_server(run)  # whatever is wrong with the data is said before anything starts
    run = run._replace(config=experiment.config)  # with the rounds that its budget pays for, where it has one
    folder = (out or Path("runs/wire") / cell_name(run.config)).resolve()
    make_private(folder)
    (folder / FAILURE).unlink(missing_ok=True)
    if is_longer(run, folder):
        with RunFolder(folder).held() as files:
            extend(run, files)
    listener = in_background(listen(run.config, folder))
    watch = _Watch(folder, run.config.run.rounds, listener)
    told = {
        PLAY: f"{__name__}:serve_job",
        NOTE: f"{__name__}:note_line",
        RUN_FILE: str(run_file.resolve()),
        RUN_FOLDER: str(folder),
    }
    told[RATE] = Rate(run.wire.max_bytes_per_second, run.wire.max_messages_per_second).text
    rules, sites = run.wire.rules, tuple(run.wire.sites)
    job = serving.Run(
        folder.name, folder, sites, rules.start, run.config.run.rounds, told, watch.finished, watch, RunFolder(folder).log
    )
    tell(f"results: {folder}")
    try:
        with private_files():
            finished = serving.serve(kit, job, tell)
    finally:
        listener.close(watch.finished())
    if not finished:
        raise Interrupted(folder)
    last = RunFolder(folder).rows()[-1:]
    for row in last:
        exchanges = experiment.plan.ids[0].size * (EXCHANGES if run.wire.masked else 1)
        down, up = on_the_wire(row["bytes_down"], row["bytes_up"], exchanges)
        tell(f"with FLARE's frames about {byte_size(down)} went down and {byte_size(up)} up")
    return Result(folder, run.config, last, experiment, ())  # pyright: ignore[reportArgumentType]


class Interrupted(Stopped):
    """SIGINT or SIGTERM came to `serve`; the driver had saved every whole round."""

    def __init__(self, folder: Path) -> None:
        Exception.__init__(self, f"stopped; every finished round is in {folder}\n  hint: the same command goes on from there")


def serve_job(ask: Ask, stopped: Callable[[], bool]) -> None:
    """The run that the environment names, inside FLARE's job; a refusal is left in the folder for `serve` to tell."""
    folder, run_file = Path(os.environ[RUN_FOLDER]), Path(os.environ[RUN_FILE])
    configure_jax()
    try:
        keys = Path(os.environ[KEYS])
        seal = ServerSeal(read_identity(keys), revoked_file(keys.parent))
        serve_rounds(run_file, folder, ask, progress=Progress(), stopped=stopped, seal=seal)
    except Stopped:
        return
    except Exception as error:
        if not stopped():  # the same job would fail again and again
            mine = isinstance(error, FedtierError)
            words = str(error) if mine else f"the server's job fails: {type(error).__name__}: {error}\n  hint: see console.log"
            write_whole(folder / FAILURE, words.encode())
        raise


def note_line(line: str) -> None:
    """A line of the transport in the log of the run that the environment names."""
    RunFolder(Path(os.environ[RUN_FOLDER])).log(line)


def federation_status(kit_folder: Path) -> dict[str, Any]:
    """`fedtier status`."""
    need_flare()
    return asking.status(read_kit(kit_folder, "server", "admin"))


class _Watch:
    """Tells what the run's folder says, line by line, and its rows to a listener; raises the failure it holds."""

    def __init__(self, folder: Path, rounds: int, listener: Listener) -> None:
        self.folder, self.rounds, self.listener = folder, rounds, listener
        self.read = self._size()
        self.rows = len(RunFolder(folder).sound_rows()[0])

    def __call__(self) -> None:
        if (self.folder / FAILURE).exists():
            raise FedtierError("run", str(self.folder), (self.folder / FAILURE).read_text(encoding="utf-8"))
        if self._size() < self.read:  # it has become run.log.1
            self._tell(self.folder / "run.log.1")
            self.read = 0
        self._tell(self.folder / "run.log")
        rows, _ = RunFolder(self.folder).sound_rows()
        for row in rows[self.rows :]:
            accuracy = row["global_accuracy"]
            shown = "-" if accuracy is None else f"{100 * accuracy:.2f} %"
            tell(f"round {row['round']}/{self.rounds}  accuracy {shown}  {row['seconds']['run']:.0f} s")
            self.listener.rows([row])
        self.rows = max(len(rows), self.rows)

    def _tell(self, path: Path) -> None:
        """The lines of the log that were not told yet."""
        if path.exists():
            with open(path, encoding="utf-8") as file:
                file.seek(self.read)
                for line in file:
                    tell(line.rstrip("\n").partition(" ")[2])
                self.read = file.tell()

    def finished(self) -> bool:
        """The last file that a run writes."""
        return (self.folder / "clients.json").exists()

    def _size(self) -> int:
        path = self.folder / "run.log"
        return path.stat().st_size if path.exists() else 0
