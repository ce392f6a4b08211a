"""Commands that look at a run while it goes on: watch, status."""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

from .shared import Real, Text, show


def watch(
    folder: tyro.conf.Positional[Path],
    port: int = 8870,
    host: str = "127.0.0.1",
    token: Text = None,
    stalled_after: Real = None,
) -> None:
    """Serve a live page of a run, of a store of runs or of a federation's run: who answers, how well, how long it will take.

    Prints the page's address and serves until stopped. It only reads. The same numbers are at /metrics for Prometheus and at
    /state.json.

    Args:
        folder: A run's folder, one with runs in it, such as runs/cells, or that of `fedtier serve`.
        port: The page's port; 0 takes a free one.
        host: The address to listen at; only this machine reaches 127.0.0.1.
        token: A word that whoever looks must know. Beyond loopback one is made where none is given, and printed.
        stalled_after: Seconds without a new row or checkpoint after which a run counts as stalled; default: 300, or five
            times the longest stretch between two evaluations.
    """
    from ..reports.live.server import watch as serve_page

    serve_page(folder, host, port, token, stalled_after, lambda address: print(address, flush=True))


def status(kit: tyro.conf.Positional[Path], json: bool = False, stalled_after: Real = None) -> None:
    """Say how far a run is, or who is connected to a federation's server.

    Of a run's folder, or one with runs in it, the exit status says how it stands: 0 all runs go on or are finished, 3 stalled,
    4 a site is silent, refused or missing, 5 stopped before the end, 6 diverged or damaged; of several runs the worst.

    Args:
        kit: A folder of runs, or the server's or the administrator's kit.
        json: One JSON object on stdout instead of a table.
        stalled_after: Seconds without a new row or checkpoint after which a run counts as stalled; default: 300, or five
            times the longest stretch between two evaluations.
    """
    from ..reports.live.watched import Watched, holds_runs

    if holds_runs(kit):
        from ..reports.live.verdict import exit_status, status_object, status_parts

        state = Watched(kit, stalled_after).look()
        show(status_object(state) if json else status_parts(state))
        sys.stdout.flush()
        raise SystemExit(exit_status(state))
    from ..deploy.flare.commands import federation_status
    from ..reports.terminal import status_table

    found = federation_status(kit)
    show(found if json else status_table(found))
