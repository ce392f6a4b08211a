"""`fedtier status` on a folder: one line a run and a site, and an exit status that a script can act on."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from ..strict_json import known
from .state import AWAY, DAMAGED, DIVERGED, FINISHED, RUNNING, STALLED, STARTING, STOPPED, Run, State, as_object

FINE, IS_STALLED, SITE_AWAY, IS_STOPPED, HAS_FAILED = 0, 3, 4, 5, 6
CODES = {
    STARTING: FINE, RUNNING: FINE, FINISHED: FINE, STALLED: IS_STALLED, STOPPED: IS_STOPPED, DIVERGED: HAS_FAILED,
    DAMAGED: HAS_FAILED,
}  # fmt: skip
WORST_FIRST = (HAS_FAILED, IS_STOPPED, IS_STALLED, SITE_AWAY)


def exit_status(state: State) -> int:
    """0 where all runs go on or are finished; of several runs the worst: 6 diverged or damaged, 5 stopped before its end,
    3 stalled, 4 running without a site that is silent, refused or missing."""
    found = {status_of(run) for run in state.runs}
    return next((code for code in WORST_FIRST if code in found), FINE)


def status_of(run: Run) -> int:
    """The exit status of one run."""
    away = run.between_sites and run.phase in (STARTING, RUNNING) and any(c.standing in AWAY for c in run.clients)
    return SITE_AWAY if away else CODES[run.phase]


def status_object(state: State) -> dict[str, Any]:
    """What `fedtier status FOLDER --json` prints."""
    return {"exit": exit_status(state)} | known(as_object(state))


def status_parts(state: State) -> list[Table | str]:
    """For people: a table of the runs, and one of the sites of each run between sites."""
    if not state.runs:
        return [f"{state.folder}: no run yet"]
    table = Table(title=state.folder, title_justify="left")
    for heading, side in (("run", "left"), ("phase", "left"), ("round", "right"), ("score", "right"), ("left", "right")):
        table.add_column(heading, justify=side)  # pyright: ignore[reportArgumentType]
    for run in state.runs:
        left = "-" if run.seconds_left is None else f"{run.seconds_left:.0f} s"
        table.add_row(run.title, run.phase, f"{run.round} of {run.rounds or '?'}", _score(run), left)
    parts: list[Table | str] = [table]
    for run in state.runs:
        parts += [f"{run.title}: {run.phase}: {run.why}"] if run.why else []
        parts += [f"warning: {line}" for line in run.warnings]
        parts += [_sites(run)] if run.between_sites and run.clients else []
    return parts


def _sites(run: Run) -> Table:
    table = Table(title="sites", title_justify="left")
    old = any(site.staleness is not None for site in run.clients)
    for heading in ("site", "latest round", "why", "counted", "silent", "refused", *(["staleness"] if old else [])):
        table.add_column(heading)
    for site in run.clients:
        counts = ["-" if n is None else str(n) for n in (site.counted, site.silent, site.refused)]
        counts += ["-" if site.staleness is None else f"{site.staleness:.1f}"] if old else []
        table.add_row(site.name, site.standing, site.why, *counts)
    return table


def _score(run: Run) -> str:
    if run.shared is None:
        return "-"
    return f"{100 * run.shared:.1f} %" if run.measure == "accuracy" else f"rmse {run.shared:.4g}"
