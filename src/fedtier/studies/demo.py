"""`fedtier demo`: one comparison on embedded data, and what it says in words."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from ..experiments import comparison, outcomes
from ..experiments.outcomes import Outcome
from ..experiments.progress import Progress
from ..experiments.run_folder import new_folder
from ..reports import findings, layout, tables
from ..reports.clients import Client, clients_of, enough_rows
from ..reports.load_runs import load_run
from ..reports.terminal import Part, byte_size

OURS, ALONE = "ZO-HFL", "local only"  # labels of demo.toml
CAUTION = "The server's step was picked on test rows of these data: a demonstration, not evidence."


class Demo(NamedTuple):
    parts: list[Part]  # for people
    content: dict[str, Any]  # for machines


def run_demo(folder: Path | None, progress: Progress) -> Demo:
    """Runs the comparison in demo.toml into `folder` (by default runs/DATE-demo); a table and what it says."""
    folder = folder or new_folder("demo")
    with resources.as_file(resources.files("fedtier.studies") / "demo.toml") as file:
        wanted = comparison.load_comparison(file, folder)
    return show_demo(outcomes.run_cells(wanted, progress), folder)


def show_demo(outcome: Outcome, folder: Path) -> Demo:
    """The comparison's table, its finding against the strongest row, who gains, and the next command to try."""
    said = [findings.sentence(outcome), worst_off_words(outcome), CAUTION]
    said += [tables.marks_note(outcome, differences=False), tables.note(outcome, differences=False)]
    words = [layout.folded(sentence) for sentence in said if sentence]
    content: dict[str, Any] = tables.as_object(outcome) | {"results": str(folder)}
    for cell in content["cells"]:
        cell["final"] = outcome.finals[cell["method"], cell["setting"]]
    next_step = f"next: fedtier report {folder} --out report.html"
    return Demo([_table(outcome), *words, f"results: {folder}", next_step], tables.known(content))


def _table(outcome: Outcome) -> Table:
    first = outcome.comparison.cells[0].config
    data, run = first.data, first.run
    title = f"{data.name}, {data.clients} clients, Dirichlet({data.alpha:g}), {run.rounds} rounds, {run.seeds} seeds"
    sent = {method: byte_size(rows[0]["bytes_up"]) if rows else "-" for (method, _), rows in outcome.finals.items()}
    return tables.scores_table(outcome, tables.lines(outcome), title, {"sent by\nclients": sent})


def worst_off_words(outcome: Outcome) -> str:
    """In how many seeds the client that is worst off alone is the one that gains most by taking part, and how far ahead of the
    average client it is, with the interval that decides whether that is certain."""
    cells = {cell.method: cell for cell in outcome.comparison.cells if outcome.finals[cell.method, cell.setting]}
    if OURS not in cells or ALONE not in cells:
        return ""
    curves = [load_run(cells[label].folder)._replace(method=label) for label in (OURS, ALONE)]
    seeds = [members for members in _by_seed(clients_of(curves)).values() if members]
    ratio = outcomes.resampling_ratio(cells[OURS].config, "personal")
    ahead = outcomes.interval(np.asarray([ahead_of_the_mean(members) for members in seeds]), ratio)
    half = "" if math.isnan(ahead.half) else f" ± {ahead.half:.1f}"
    sure = "" if ahead.excludes_zero() else ", which these seeds do not tell from 0"
    return (
        f"In {sum(map(gains_most, seeds))} of {len(seeds)} seeds the client that is worst off alone gains most from {OURS} "
        f"(against {ALONE}, among clients with enough test rows): {ahead.mean:.1f}{half} points more than the average "
        f"client{sure}."
    )


def gains_most(members: list[Client]) -> bool:
    """Whether the client with the worst model of its own is the one, or one of those, that gain most from ours."""
    worst = min(members, key=lambda client: client.personal[ALONE])
    most = max(client.personal[OURS] - client.personal[ALONE] for client in members)
    return worst.personal[OURS] - worst.personal[ALONE] >= most - 1e-9


def ahead_of_the_mean(members: list[Client]) -> float:
    """By how many points the client with the worst model of its own gains more than the average client."""
    worst = min(members, key=lambda client: client.personal[ALONE])
    gains = [client.personal[OURS] - client.personal[ALONE] for client in members]
    return worst.personal[OURS] - worst.personal[ALONE] - float(np.mean(gains))


def _by_seed(found: list[Client]) -> dict[int | None, list[Client]]:
    out: dict[int | None, list[Client]] = {}
    for client in found:
        if enough_rows(client) and OURS in client.personal and ALONE in client.personal:
            out.setdefault(client.seed, []).append(client)
    return out
