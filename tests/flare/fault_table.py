"""The table of faults in docs/operations.md, from tests that are run now.

    python -m tests.flare.fault_table                       all of it, as `make crash` does; an hour
    python -m tests.flare.fault_table -k misbehaviour       a part of it; the rest stays as it was found last

A line says what fails, how it ends and which test holds that; where a test measures seconds, how many. What was found is kept
in build/faults.json. Ends with exit status 1 where a test of the table fails or was never run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DOCS, FOUND = Path("docs/operations.md"), Path("build/faults.json")
BEGIN, END = "<!-- faults: python -m tests.flare.fault_table -->", "<!-- end of faults -->"
PLACES = (
    "tests/flare", "tests/deploy/test_damage.py", "tests/deploy/test_accepts.py", "tests/deploy/test_wire.py",
    "tests/protocol/test_damage.py", "tests/protocol/test_validation.py", "tests/protocol/test_process.py",
)  # fmt: skip
SAME, REFUSED, WITHOUT = "bit-identical", "refused by name", "goes on without it"
CRASH = "flare/test_crash.py::test_whatever_fails"
DAMAGE = "deploy/test_damage.py::test_"
MEMORY = "protocol/test_damage.py::test_a_site_"


class Line(NamedTuple):
    fault: str
    end: str
    test: str  # how its id begins, after tests/
    seconds: str = ""  # the property in which it says how long it took


LINES = (
    Line("kill -9 of a site's solver", SAME, CRASH, "solver killed"),
    Line("... of a site's job", SAME, CRASH, "site's job killed"),
    Line("... of all of FLARE at a site", SAME, CRASH, "site killed"),
    Line("... of `join` alone, started again", SAME, CRASH, "join killed"),
    Line("... of the server's job", SAME, CRASH, "server's job killed"),
    Line("... of FLARE's server and its job", SAME, CRASH, "server killed"),
    Line("... of the whole server with `serve`, started again", SAME, CRASH, "server's machine, first time"),
    Line("... once more", SAME, CRASH, "server's machine, second time"),
    Line("... and a third time in a row", SAME, CRASH, "server's machine, third time"),
    Line("... of everything at once, started again", SAME, CRASH, "everything killed"),
    Line("... of everything, sites started first and backwards", SAME, CRASH, "everything killed, sites first"),
    Line("SIGSTOP of a site for 25 s", SAME, CRASH, "site stopped"),
    Line("SIGSTOP of FLARE's server for 25 s", SAME, CRASH, "server stopped"),
    Line("SIGSTOP of a solver for good, `hung_after = 60`", SAME, CRASH, "solver stopped"),
    Line("all connections reset", SAME, CRASH, "connections reset"),
    Line("a black hole in the network for 25 s", SAME, CRASH, "black hole"),
    Line("no file can grow at a site for 10 s", SAME, CRASH, "site's disk full"),
    Line("no file can grow at the server for 10 s", SAME, CRASH, "server's disk full"),
    Line("the server's certificate renewed in the middle", SAME, CRASH, "server's certificate renewed"),
    Line("20 callers that say nothing", SAME + ", `status` answers", CRASH, "status beside idle callers"),
    Line("a byte in the server's checkpoint, the server killed", SAME, CRASH, "checkpoint damaged"),
    Line("the server's checkpoint damaged, cut or gone", SAME, DAMAGE + "a_damaged_checkpoint"),
    Line("both generations of the server's checkpoint", REFUSED, DAMAGE + "where_no_checkpoint"),
    Line("a checkpoint of another run", REFUSED, DAMAGE + "a_checkpoint_of_another_run"),
    Line("`wire.json` damaged, cut or gone", SAME + ", written again", DAMAGE + "what_wire_json"),
    Line("a row of the server's metrics damaged", SAME + " model, the row is left out", DAMAGE + "a_damaged_row"),
    Line("a site's memory damaged, cut or gone", "the rounds it forgot are told", MEMORY + "whose_memory"),
    Line("both generations of a site's memory", "said once, starts anew", MEMORY + "without_any"),
    Line("a site's brief damaged, cut or gone", SAME, "protocol/test_damage.py::test_a_damaged_brief"),
    Line("a site stopped, quorum 0.5", "goes on without it, takes it back", "flare/test_crash.py::test_a_run_goes_on_without"),
    Line("a site killed again and again", WITHOUT, "flare/test_flapping.py::test_a_site_that_is_killed"),
    Line("SIGTERM while FLARE's server stands still", "exit status 130", "flare/test_crash.py::test_serve_and_join", "ended"),
    Line("`status` of a server that stands still", "told in words", "flare/test_refusals.py::test_a_server_that_st", "told"),
    Line("a certificate that ran out, or of tomorrow", REFUSED, "flare/test_refusals.py::test_a_certificate_that_ran_out"),
    Line("a certificate of another authority, or none", REFUSED, "flare/test_refusals.py::test_without_a_certificate"),
    Line("a site with another site's certificate", REFUSED, "flare/test_refusals.py::test_a_site_under_the_name"),
    Line("a site in the place of the server", REFUSED, "flare/test_refusals.py::test_a_server_that_is_another"),
    Line("a site's certificate used as the administrator's", REFUSED, "flare/test_refusals.py::test_a_site_s_certificate"),
    Line("a revoked certificate or key", REFUSED, "flare/test_revocation.py::test_"),
    Line("a job with code, or of another class", REFUSED, "flare/test_refusals.py::test_a_job_that"),
    Line("letters of one site to another", SAME, "flare/test_hostile.py::"),
    Line("NaN, shapes, types, rounds, replays, other runs, garbage", REFUSED, "protocol/test_validation.py::test_a_bad_reply"),
    Line("an admitted site that misbehaves in sixty ways", SAME, "flare/test_misbehaviour.py::"),
    Line("16 bytes that announce 1.9 GB", "hung up, below 100 MB", "flare/test_refusals.py::test_a_message_that_announces"),
    Line("a hello of 3.4 kB for a huge model", REFUSED + ", below 100 MB", "deploy/test_accepts.py::test_a_small_hello"),
    Line("a method, uplink or size that a site does not take", REFUSED, "deploy/test_accepts.py::test_a_site_plays"),
    Line("a finished run extended", "bit-identical to the longer run", "deploy/test_wire.py::test_a_finished_run_is_extended"),
    Line("quorum and deadline changed at a restart", SAME, "deploy/test_wire.py::test_a_stopped_run_goes_on"),
    Line("a kit of the wrong kind, or that ran out", REFUSED, "flare/test_kits.py::test_a_kit_of_the_wrong_kind"),
    Line("`uplink = \"values\"`", "two numbers leave a site", "deploy/test_wire.py::test_with_values"),
)  # fmt: skip


class Collector:
    """Keeps how each test ended, and what it measured."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            name = report.nodeid.removeprefix("tests/")
            self.found[name] = {"passed": report.passed, "measured": dict(report.user_properties)}

    def pytest_sessionfinish(self) -> None:
        FOUND.parent.mkdir(exist_ok=True)
        FOUND.write_text(json.dumps(self.found, indent=1))


def row(line: Line, found: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """The table's row, and why it does not hold."""
    ours = {name: one for name, one in found.items() if name.startswith(line.test)}
    failed = [name for name, one in ours.items() if not one["passed"]]
    measured = [one["measured"][line.seconds] for one in ours.values() if line.seconds in one["measured"]]
    trouble = ""
    if not ours:
        trouble = "was not run"
    elif failed:
        trouble = f"failed: {', '.join(failed)}"
    elif line.seconds and not measured:
        trouble = "was not measured"
    end = f"**{trouble}**" if trouble else line.end
    seconds = f"{measured[0]:.0f} s" if measured else ""
    file = line.test.partition("::")[0]
    return f"| {line.fault} | {end} | {seconds} | `{file}` |", f"{line.fault}: {trouble}" if trouble else ""


def write(found: dict[str, dict[str, Any]]) -> list[str]:
    """Puts the table into the documentation; what does not hold."""
    rows, troubles = zip(*(row(line, found) for line in LINES), strict=True)
    head = ["| what fails | how it ends | back after | test |", "|---|---|---|---|"]
    before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
    table = "\n".join([BEGIN, "", *head, *rows, "", END])
    DOCS.write_text(before + table + rest.split(END)[1], encoding="utf-8")
    return [trouble for trouble in troubles if trouble]


def main() -> None:
    collector = Collector()
    code = pytest.main(["-n", "0", "-m", "not flower", *PLACES, *sys.argv[1:]], plugins=[collector])
    troubles = write(collector.found)
    for trouble in troubles:
        print(f"does not hold: {trouble}", file=sys.stderr)
    raise SystemExit(int(code) or bool(troubles))


if __name__ == "__main__":
    main()
